"""All recipes the package exports, and the one that the documentation writes. A new one is tested by existing."""

import inspect

from stability_recipe import Stability

from smoothcert import training
from smoothcert.training import BaseRecipe


def exported_recipes():
    exported = (getattr(training, name) for name in training.__all__)
    return [r for r in exported if isinstance(r, type) and issubclass(r, BaseRecipe) and not inspect.isabstract(r)]


ALL = [*exported_recipes(), Stability]
