"""The directive ``gallery-image``: the first picture of an example of the gallery, with a link to the example.

Pictures of the gallery exist only once its examples have run. Where the pages are built without running them
(``sphinx-build -D plot_gallery=0``), the description of the picture stands in its place. Where they do run, a missing
picture is a warning, as for any other image.
"""

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.parsers.rst.directives.images import Image
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective


class GalleryImage(Image, SphinxDirective):
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self):
        example = self.arguments[0]
        picture = f"gallery/images/sphx_glr_{example}_001.png"
        self.env.note_dependency(picture)  # the page is read again when the picture appears
        if not self.config.sphinx_gallery_conf["plot_gallery"] and not (Path(self.env.srcdir) / picture).exists():
            return [self._description(example)]
        self.arguments[0] = f"/{picture}"
        self.options["target"] = "../" * self.env.docname.count("/") + f"gallery/{example}.html"
        return super().run()

    def _description(self, example):
        link = addnodes.pending_xref(
            "",
            nodes.inline("", "Picture"),
            refdomain="std",
            reftype="doc",
            reftarget=f"/gallery/{example}",
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )
        return nodes.paragraph("", "", link, nodes.Text(f": {self.options['alt']}"))


def setup(app):
    app.add_directive("gallery-image", GalleryImage)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
