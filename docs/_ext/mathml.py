"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network are needed."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.math import get_node_equation_number


def mathml(tex, **options):
    r"""Return MathML in which bars, slashes and braces look as in TeX.

    Without attributes browsers put space around bars and slashes, as around relations, and stretch braces to the height
    of the formula, which TeX does after ``\left`` and ``\right`` only. Those are the first and last child of a row.
    """
    text = tex2mathml(tex, **options)
    text = re.sub(r"<mo ([^>]+)>([|/])</mo>", r'<mo lspace="0" rspace="0" \1>\2</mo>', text)
    text = re.sub(r"(<mrow>\s*)?<mo>{</mo>", lambda m: m[0] if m[1] else '<mo stretchy="false">{</mo>', text)
    return re.sub(r"<mo>}</mo>(?!\s*</mrow>)", '<mo stretchy="false">}</mo>', text)


def visit_math(self, node):
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    parts = [mathml(part, as_block=True) for part in node.astext().split("\n\n") if part.strip()]
    self.body.append('<div class="formula">' + "\n".join(parts) + "</div></div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
