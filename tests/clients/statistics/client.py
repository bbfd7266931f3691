"""`hearth tune analyze` beside numpy, over random studies.

Besides HEARTH, the program: nothing. Every number that the rule of medians gives is worked out here in another way.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HEARTH = os.environ["HEARTH"]
STUDIES = 25


def study(random, path):
    """Writes a study of some shape; gives its values by metric and build."""
    builds, metrics, rounds = random.integers(2, 30), random.integers(1, 5), random.integers(2, 12)
    values = {}
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["nb_build", "option", "metric", "value", "repetition"])
        for metric in range(metrics):
            for build in range(builds):
                # Rounded now and then, so that there are ties.
                digits = int(random.integers(0, 6))
                drawn = np.round(random.normal(100 + build % 5, 3, rounds), digits)
                kept = drawn[random.random(rounds) > 0.1]
                kept = drawn[:1] if len(kept) == 0 else kept
                values[metric, build] = kept
                for at, value in enumerate(kept):
                    out.writerow([f"{build}", build % 3, f"m{metric}", repr(float(value)), at])
    return int(builds), int(metrics), values


def expected(builds, metrics, values, signs):
    """The front, those near it and those better than build 0, as the definitions say."""
    median = np.array([[np.median(values[m, b]) for m in range(metrics)] for b in range(builds)])
    half = np.zeros((builds, metrics))
    for b in range(builds):
        for m in range(metrics):
            n = len(values[m, b])
            half[b, m] = 1.25 * 1.96 * np.std(values[m, b], ddof=1) / np.sqrt(n) if n > 1 else 0
    gain = median * signs
    dominated = [any((gain[o] >= gain[b]).all() and (gain[o] > gain[b]).any() for o in range(builds)) for b in range(builds)]
    front = [b for b in range(builds) if not dominated[b]]
    low, high = median - half, median + half

    def meets(b, o):
        # Not exactly: both programs round.
        return ((low[b] <= high[o] + 1e-9) & (low[o] <= high[b] + 1e-9)).all()

    near = [b for b in range(builds) if any(meets(b, o) for o in front)]
    better = [b for b in near if (gain[b] > gain[0]).all()]
    return front, near, better, (median / median[0] - 1) * 100


def main():
    for seed in range(STUDIES):
        random = np.random.default_rng(seed)
        with tempfile.TemporaryDirectory() as folder:
            results, answer = os.path.join(folder, "results.csv"), os.path.join(folder, "answer.json")
            builds, metrics, values = study(random, results)
            signs = np.where(random.random(metrics) < 0.5, 1, -1)
            goals = [word for m in range(metrics) for word in ("--max" if signs[m] > 0 else "--min", f"m{m}")]
            command = [HEARTH, "tune", "analyze", results, *goals, "--reference", "0", "--rule", "article"]
            subprocess.run([*command, "--resamples", "100", "--json", answer], check=True, stdout=subprocess.DEVNULL)
            with open(answer) as file:
                found = json.load(file)
            front, near, better, percent = expected(builds, metrics, values, signs)
            what = f"study {seed}: {builds} builds, {metrics} metrics"
            assert found["exact_pareto"] == [str(b) for b in front], (what, found["exact_pareto"], front)
            assert found["pareto_boxes"] == [str(b) for b in near], (what, found["pareto_boxes"], near)
            assert found["better_than_reference"] == [str(b) for b in better], (what, better)
            for row in found["relative_table"]:
                for m in range(metrics):
                    np.testing.assert_allclose(row[f"m{m}"], percent[int(row["build"]), m], rtol=1e-9, atol=1e-9)
            assert set(found["p_front"]) == {str(b) for b in range(builds)}, what
    print(f"{STUDIES} studies: front, boxes, better builds and relative differences are as numpy has them")
    return 0


sys.exit(main())
