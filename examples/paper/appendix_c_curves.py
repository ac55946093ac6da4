"""Appendix C: absolute certified accuracy, from certificates made by the other scripts or from published logs.

Give curves as name=file, where file is a .tsv or .npz that figure_5_mnist.py and its kin left in their output folder:

    python appendix_c_curves.py "first order=paper_figures/.../first_order_N_100000.npz" \\
        "second order=paper_figures/.../second_order_N_100000.npz"

Without any, the published logs of 7x7 MNIST are drawn, if SMOOTHCERT_REFERENCE names their folder.
"""

import matplotlib.pyplot as plt
import numpy as np
from _common import options, power, read_log, reference, save, write_table

from smoothcert.plotting import CertifiedAccuracyDisplay

parser = options(__doc__)
parser.add_argument("curves", nargs="*", help="name=file")
parser.add_argument("--title", default="", help="title of the picture")
args = parser.parse_args()

panels = []
if args.curves:
    pairs = [curve.partition("=") for curve in args.curves]
    if not all(path for _, _, path in pairs):
        parser.error(f"curves must look like name=file, got {args.curves}")
    panels.append((args.title, {name: read_log(path) for name, _, path in pairs}))
else:
    folder = reference()
    if folder is None:
        parser.error("give curves as name=file, or set SMOOTHCERT_REFERENCE")
    for n in (10**5, 10**6, 10**7, 10**8):
        for method in ("second_order", "dipole"):
            files = {"first order": f"N_{n}", method.replace("_", " "): f"{method}_N_{n}"}
            logs = {name: read_log(folder / "small_mnist_sigma_0.25" / f"{file}.tsv") for name, file in files.items()}
            panels.append((f"{args.title} published {method.replace('_', ' ')}, N = {power(n)}".strip(), logs))

columns = min(2, len(panels))
rows = -(-len(panels) // columns)
figure, axes = plt.subplots(
    rows, columns, figsize=(5.6 * columns, 3.6 * rows), layout="constrained", squeeze=False, sharex=True, sharey=True
)
table = {name: [] for name in ("panel", "curve", "radius", "certified_accuracy")}
for ax, (title, curves) in zip(axes.flat, panels, strict=True):
    truths = [y for y, _ in curves.values()]
    if not all(np.array_equal(y, truths[0]) for y in truths):
        raise SystemExit("The curves of one panel must be about the same inputs, got different labels.")
    certificates = {name: each for name, (_, each) in curves.items()}
    display = CertifiedAccuracyDisplay.from_certificates(truths[0], certificates, ax=ax, lw=1.1)
    ax.set_title(title, fontsize=11)
    for name, radii, accuracy in zip(display.names, display.radii, display.accuracy, strict=True):
        for r, a in zip(radii, accuracy, strict=True):
            for key, value in zip(table, (title.replace("$", "").replace("^", "**"), name, r, a), strict=True):
                table[key].append(value)
for ax in axes[:-1].flat:
    ax.set_xlabel("")
for ax in axes[:, 1:].flat:
    ax.set_ylabel("")
save(figure, args.out, "appendix_c")
write_table(args.out, "appendix_c", table)
