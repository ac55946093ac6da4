"""
What a certificate says
=======================

A smoothed classifier votes over noisy copies of its input. From the share of votes alone, and better from more than
that, one can prove how far an input may move before the vote can change.
"""

# %%
# The first certificate knows only the share `p` of the votes; the others know more and certify further.
import matplotlib.pyplot as plt
import numpy as np

from smoothcert import bounds

p = np.linspace(0.5, 0.999, 200)
curves = {
    "first order: votes": bounds.first_order_radius(p),
    "second order: votes and no gradient": bounds.second_order_radius(p, 0.0),
}
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for label, radius in curves.items():
    ax.plot(p, radius, label=label)
ax.set(xlabel="share of votes for the class", ylabel="certified radius (units of sigma)")
ax.legend()
fig.savefig("quickstart.png", dpi=120)
print("share of votes 0.90:", bounds.first_order_radius(0.9).round(4), bounds.second_order_radius(0.9, 0.0).round(4))
