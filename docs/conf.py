"""How the documentation is built: ``sphinx-build -W -b html docs docs/_build/html``."""

import sys
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the code beside these pages, not an installed copy
sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))
matplotlib.use("Agg")

from sphinx_gallery.sorting import ExplicitOrder

import smoothcert

project = "smoothcert"
author = "The smoothcert developers"
copyright = author
version = release = smoothcert.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "gallery_image",
    "numpydoc",
]
exclude_patterns = ["_build", "**/*.ipynb"]
default_role = "code"
nitpicky = False
templates_path = ["_templates"]

# Signatures say what types there are; prose says the rest.
autodoc_typehints = "none"
autosummary_generate = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/(paper|extending)/|__init__",
    "nested_sections": False,
    "within_subsection_order": ExplicitOrder(
        [
            "plot_what_is_a_certificate.py",
            "plot_quickstart.py",
            "plot_swiss_roll.py",
            "plot_choose_sigma.py",
            "plot_compare_certifiers.py",
            "plot_directional.py",
            "plot_pca_pipeline.py",
            "plot_forest.py",
            "plot_neural_net.py",
            "plot_train_for_certificates.py",
            "plot_denoiser.py",
            "*",
        ]
    ),
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "write_computation_times": False,
    "show_memory": False,
    "doc_module": ("smoothcert",),
    "backreferences_dir": "generated/backreferences",
    "image_srcset": ["2x"],
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "smoothcert"
html_static_path = ["_static"]
html_css_files = ["smoothcert.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": f"smoothcert {release}"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
}
html_sidebars = {name: [] for name in ("index", "install", "reproduction", "extending", "comparison", "threats")}
