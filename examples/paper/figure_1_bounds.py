"""Figure 1: what a known gradient adds, (a) to the lower bound and (b) to the certified radius.

(a) With probability 0.8 at the input, the smallest possible probability at each distance, on an axis of normal
quantiles. (b) The certified radius against the gradient norm, for several probabilities; dashed lines are the radii
from the probability alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from _common import options, save, write_table

from smoothcert.plotting import BoundDisplay

args = options(__doc__).parse_args()
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
bound = BoundDisplay.from_lower_bound(0.8, grad_norm=(np.inf, 0.0), ax=left, name="(a) probability 0.8 at the input")
radius = BoundDisplay.from_radius((0.55, 0.6, 0.7, 0.8, 0.9, 0.95), ax=right, name="(b) dashed: gradient unknown")
right.legend(ncols=2, loc="upper right", fontsize="small")
right.set_ylim(0, 2.6)
save(figure, args.out, "figure_1")

write_table(args.out, "figure_1a", {"distance": bound.x[0], **dict(zip(bound.names, bound.y, strict=True))})
parts = zip(radius.names, radius.x, radius.y, radius.first_order, strict=True)
rows = [(name[4:], g, r, flat) for name, norms, radii, flat in parts for g, r in zip(norms, radii, strict=True)]
names = ("p", "gradient_norm", "second_order_radius", "first_order_radius")
write_table(args.out, "figure_1b", dict(zip(names, zip(*rows, strict=True), strict=True)))
