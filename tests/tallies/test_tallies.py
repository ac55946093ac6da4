"""Evidence adds: in blocks, in any order, by merging; and wrong merges are refused."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from smoothcert.tallies import GradientTally, PairTally, VoteTally
from smoothcert.tallies._sums import bins_of

CANDIDATE = [2, 0]


def new_tallies():
    return {
        "votes": VoteTally.empty(2, 4, CANDIDATE),
        "gradient": GradientTally.empty(2, 3, candidate=CANDIDATE),
        "gradients of all classes": GradientTally.empty(2, 3, n_classes=4, candidate=CANDIDATE),
        "pairs": PairTally.empty(2, candidate=CANDIDATE),
        "pairs and gradient": PairTally.empty(2, 3, CANDIDATE),
    }


def samples(seed, n, pairs):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((2, n, 3)).astype(np.float32)
    return noise, rng.integers(0, 4, size=(2, 2, n) if pairs else (2, n))


def arrays(tally):
    return {name: getattr(tally, name) for name in tally.additive if getattr(tally, name) is not None}


@pytest.mark.parametrize("kind", new_tallies())
def test_merging_is_associative_commutative_and_equals_one_long_update(kind):
    parts = []
    for seed, n in enumerate((5, 40, 17)):
        tally = new_tallies()[kind]
        tally.update(*samples(seed, n, "pairs" in kind))
        parts.append(tally)
    long = new_tallies()[kind]
    for seed, n in enumerate((5, 40, 17)):
        long.update(*samples(seed, n, "pairs" in kind))
    for a, b, c in itertools.permutations(parts):
        for merged in (a.merge(b).merge(c), a.merge(b.merge(c))):
            for name, value in arrays(merged).items():
                np.testing.assert_array_equal(value, arrays(long)[name])  # to the last bit, sums too
                assert value.dtype in (np.int64, np.float64)


def test_merge_leaves_its_parts_alone():
    tally = VoteTally([[3, 4]], 10, candidate=[0])
    tally.merge(tally)
    np.testing.assert_array_equal(tally.counts, [[3, 4]])


def test_votes_are_counted_and_invalid_ones_are_not():
    tally = VoteTally.empty(1, 3, [1])
    tally.update(None, [[0, 1, 1, 3, -1, 2]])
    np.testing.assert_array_equal(tally.counts, [[1, 2, 1]])
    assert tally.n == 6
    assert tally.hits == 2
    assert tally.rivals == 2  # the two that are no vote for a listed class may be for one other


def test_gradient_sums_are_those_of_the_definition():
    noise, votes = samples(0, 50, pairs=False)
    for centre in (0.5, 0.0):
        tally = GradientTally.empty(2, 3, centre=centre, candidate=CANDIDATE)
        tally.update(noise, votes)
        for row in range(2):
            x = noise[row].astype(np.float64) * ((votes[row] == CANDIDATE[row]) - centre)[:, None]
            products = x @ x.T
            expected = (products.sum() - np.trace(products)) / (50 * 49)
            np.testing.assert_allclose(
                tally.norm_sq[row], expected, rtol=1e-5, atol=1e-6
            )  # sums are rounded to fixed steps
    several = GradientTally.empty(2, 3, n_classes=4, candidate=CANDIDATE)
    several.update(noise, votes)
    single = GradientTally.empty(2, 3, candidate=CANDIDATE)
    single.update(noise, votes)
    for row in range(2):
        np.testing.assert_allclose(several.norm_sq[row, CANDIDATE[row]], single.norm_sq[row], rtol=1e-5, atol=1e-6)


def test_pairs_are_counted_in_cells_and_orientation():
    plus, minus = [1, 1, 0, 0, 1], [1, 0, 1, 0, 0]
    noise = np.arange(10.0).reshape(1, 5, 2)
    tally = PairTally.empty(1, 2)
    tally.update(noise, [[plus, minus]])
    assert (tally.both[0], tally.one[0], tally.one_plus[0], tally.pairs[0]) == (1, 3, 2, 5)
    expected = (noise[0] * (np.subtract(plus, minus) / 2)[:, None]).sum(axis=0)
    np.testing.assert_allclose(tally.grad_sum[0], expected)


def test_given_norm_is_given_back():
    norm_sq = np.array([0.02, -0.003, 0.0])
    np.testing.assert_allclose(GradientTally.from_norm_sq(5, 100, norm_sq[0], 7).norm_sq, norm_sq[0])
    np.testing.assert_allclose(GradientTally.from_norm_sq([5, 6, 7], 100, norm_sq, 7).norm_sq, norm_sq)


@pytest.mark.parametrize("kind", new_tallies())
def test_rows_can_be_taken_apart_and_put_together(kind):
    tally = new_tallies()[kind]
    tally.update(*samples(1, 30, "pairs" in kind))
    again = type(tally).concatenate([tally[0], tally[1:]])
    assert len(tally[0]) == 1
    for name, value in arrays(tally).items():
        np.testing.assert_array_equal(value, getattr(again, name))
    np.testing.assert_array_equal(again.candidate, CANDIDATE)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (VoteTally([[1, 2]], 3), VoteTally([[1, 2, 0]], 3), "same classes"),
        (VoteTally([[1, 2]], 3, [0]), VoteTally([[1, 2]], 3, [1]), "same candidate"),
        (VoteTally([1, 2], 3), VoteTally([1], 3), "same rows"),
        (VoteTally([1], 3), PairTally([1], [1], 3), "same kind"),
        (GradientTally.empty(1, 3), GradientTally.empty(1, 4), "same features"),
        (GradientTally.empty(1, 3), GradientTally.empty(1, 3, centre=0.0), "same centre"),
        (GradientTally.empty(1, 3), GradientTally.empty(1, 3, n_classes=2), "same classes"),
        (PairTally.empty(1, 3), PairTally.empty(1), "same features"),
        (PairTally.empty(1), PairTally([1], [1], 3), "same orientation"),
        (VoteTally([1], 3), 7, "same kind"),
    ],
)
def test_wrong_merges_are_refused(left, right, message):
    with pytest.raises(ValueError, match=message):
        left.merge(right)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VoteTally([[-1, 2]], 3), "counts must be at least 0, got -1"),
        (lambda: VoteTally([[2, 2]], 3), "counts must sum to at most n"),
        (lambda: VoteTally([[2.5, 0]], 3), "counts must be whole"),
        (lambda: VoteTally([[[1]]], 3), "counts must have shape"),
        (lambda: VoteTally([[1, 1]], [3, 3]), "n must be a number or have shape"),
        (lambda: VoteTally([[1, 1]], 3, [2]), "candidate must be a column"),
        (lambda: VoteTally([[1, 1]], 3).hits, "candidate must name the class"),
        (lambda: GradientTally(4, 3, [[0.0]], 0.0), "hits must be at most n"),
        (lambda: GradientTally([1], 3, [0.0], 0.0), "grad_sum must have shape"),
        (lambda: GradientTally([1], 3, [[np.inf]], 0.0), "grad_sum must be finite"),
        (lambda: GradientTally([1], 3, [[0.0]], np.nan), "grad_sq must be finite"),
        (lambda: PairTally(2, 2, 3), r"both \+ one must be at most pairs"),
        (lambda: PairTally(1, 1, 3, one_plus=2), "one_plus must be at most one"),
        (lambda: PairTally(1, 1, 3, grad_sum=[[0.0]]), "given together"),
        (lambda: PairTally(1, 1, 3, grad_sum=[0.0], grad_sq=1.0), "grad_sum must have shape"),
        (lambda: PairTally(1, 1, 3).norm_sq, "must hold gradient sums"),
        (lambda: PairTally([[1]], 1, 3), "both must have shape"),
        (lambda: VoteTally.concatenate([]), "at least one tally"),
    ],
)
def test_impossible_evidence_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_single_sample_knows_no_gradient():
    assert GradientTally(1, 1, [[0.3]], 0.09).norm_sq == np.inf
    assert PairTally(0, 1, 1, grad_sum=[[0.3]], grad_sq=0.09).norm_sq == np.inf


@pytest.mark.parametrize("n_edges", [1, 2, 9, 59, 300, 2000])
def test_bins_are_those_of_a_binary_search(n_edges):
    """On the edges themselves, next to them, far out, and everywhere else; also where edges are too close for ticks."""
    rng = np.random.default_rng(n_edges)
    for edges in (np.linspace(-4.0, 4.0, n_edges), np.sort(rng.normal(size=n_edges)), [0.5] * (n_edges == 1)):
        edges = np.unique(edges)
        values = np.concatenate(
            [rng.normal(0.0, 2.0, 20_000), edges, np.nextafter(edges, -9.0), np.nextafter(edges, 9.0)]
        )
        values = np.append(values, [-1e300, -50.0, 50.0, 1e300])
        found = bins_of(values, tuple(edges.tolist()))
        np.testing.assert_array_equal(found, np.searchsorted(edges, values, side="right"))


@dataclass(eq=False)
class VotesWithEdges(VoteTally):
    """A tally with one array for all inputs, as long as there are inputs."""

    shared = ("edges",)
    edges: np.ndarray | None = None


@dataclass(eq=False)
class Undeclared(VoteTally):
    edges: np.ndarray | None = None


def test_fields_are_kept_as_declared_and_not_as_their_types_suggest():
    edges = np.array([0.0, 1.0, 2.0])
    tally = VotesWithEdges(np.array([[5, 1], [3, 3], [2, 4]]), 6, edges=edges)
    np.testing.assert_array_equal(tally[:2].edges, edges)
    np.testing.assert_array_equal(VotesWithEdges.concatenate([tally[2], tally[0]]).edges, edges)
    np.testing.assert_array_equal(tally[1].counts, [[3, 3]])


def test_fields_must_be_declared():
    tally = Undeclared(np.array([[5, 1]]), 6, edges=np.zeros(1))
    with pytest.raises(TypeError, match="Undeclared must list its field 'edges' exactly once"):
        tally[0]


def test_gradient_of_the_lead_is_that_of_the_definition():
    rng = np.random.default_rng(5)
    noise, votes = rng.standard_normal((2, 400, 3)), rng.integers(-1, 4, (2, 400))
    tally = GradientTally.empty(2, 3, n_classes=4, candidate=[1, 3])
    for part in (slice(0, 150), slice(150, 400)):
        tally.update(noise[:, part], votes[:, part])
    found = tally.lead_norm_sq()
    for row, own in enumerate((1, 3)):
        for rival in range(4):
            difference = (votes[row] == own).astype(float) - (votes[row] == rival)
            X = noise[row] * difference[:, None] / 2.0
            expected = (np.sum(X.sum(axis=0) ** 2) - np.sum(X**2)) / (400 * 399)
            if rival == own:
                assert found[row, rival] == np.inf
            else:
                assert expected <= found[row, rival] <= expected + 1e-7
    # Without the squares of single classes the estimate can only be larger.
    assert np.all(replace(tally, vote_sq=0.0).lead_norm_sq() >= found)
