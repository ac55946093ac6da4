"""Formulas as MathML, which browsers draw by themselves: no script, no font and no network are needed."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.math import get_node_equation_number


def visit_math(self, node):
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_displaymath(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    parts = [tex2mathml(part, as_block=True) for part in node.astext().split("\n\n") if part.strip()]
    self.body.append('<div class="formula">' + "\n".join(parts) + "</div></div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
