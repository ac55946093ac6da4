"""Nets whose module is defined in the script that is running, in several processes."""

import subprocess
import sys

import pytest

pytest.importorskip("skorch")

SCRIPT = """
import numpy as np, torch, skorch
from sklearn.ensemble import BaggingClassifier
from sklearn.datasets import load_iris
from smoothcert import FirstOrderCertifier, SmoothedClassifier
import smoothcert._engine._collect as collect
collect._NOT_WORTH_SENDING = 0.0  # so that workers get something to do

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)

if __name__ == "__main__":
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    net = skorch.NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=2, verbose=0)
    for base in (net, BaggingClassifier(net, n_estimators=2, random_state=0)):
        clf = SmoothedClassifier(base, certifier=FirstOrderCertifier(2000), random_state=0, batch_size=64).fit(X, y)
        alone = clf.certify(X[::30])
        together = clf.set_params(n_jobs=2).certify(X[::30])
        print((alone.radius == together.radius).all())
"""


def test_modules_of_the_running_script_reach_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", str(tmp_path / "script.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["True", "True"]
