"""A file that somebody reads can be opened for writing."""

import sqlite3
import threading
import time

from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from smoothcert import FirstOrderCertifier, SmoothedClassifier

X, Y = load_iris(return_X_y=True)


def test_a_reader_of_a_new_file_is_waited_for(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = SmoothedClassifier(GaussianNB(), certifier=FirstOrderCertifier(200), n_augment=1, random_state=0).fit(X, Y)
    expected = clf.certify(X[:2]).radius
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN IMMEDIATE")  # holds the file of no tables yet, before there is a log

    def leave():
        time.sleep(0.5)
        reader.execute("ROLLBACK")
        reader.close()

    leaving = threading.Thread(target=leave)
    leaving.start()
    found = clf.certify(X[:2], journal=path).radius
    leaving.join()
    assert found.tolist() == expected.tolist()
