"""Runs basedpyright and fails on any finding, and also if it silently analysed nothing."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUST_ANALYSE = ("depgpo_jax", "training", "tests", "benchmarks")


def main() -> int:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        report = json.loads(run.stdout)
    except json.JSONDecodeError:
        print(f"basedpyright gave no report (exit {run.returncode}):\n{run.stdout}{run.stderr}")
        return 1

    findings = report["generalDiagnostics"]
    for finding in findings:
        start = finding["range"]["start"]
        file, line = Path(finding["file"]).relative_to(ROOT), start["line"] + 1
        rule = finding.get("rule", "-")
        print(f"{file}:{line}: {finding['severity']}: {finding['message']} ({rule})")

    analysed = report["summary"]["filesAnalyzed"]
    expected = sum(1 for folder in MUST_ANALYSE for _ in (ROOT / folder).rglob("*.py"))
    print(f"basedpyright: {analysed} files analysed, {len(findings)} findings")
    if analysed < expected:
        print(f"basedpyright analysed {analysed} files; {', '.join(MUST_ANALYSE)} hold {expected}.")
        return 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
