"""The command ``smoothcert``: certify a model in a file, watch a run, and report on a result.

What a verb needs is imported when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ._parser import build_parser

OK, DIFFERENT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; certificates differ from their evidence; something given was wrong; stopped by the user."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return int(_verb(arguments.verb)(arguments))
        except KeyboardInterrupt:
            kept = getattr(arguments, "journal", None)
            note = f" What was counted is in {kept}: the same command continues." if kept else ""
            sys.stderr.write(f"\nsmoothcert {arguments.verb}: stopped.{note}\n")
            return INTERRUPTED
        except BrokenPipeError:
            return OK
        except (ArithmeticError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            if arguments.traceback:
                raise
            sys.stderr.write(f"smoothcert {arguments.verb}: error: {_one_line(error)}\n")
            return BAD_INPUT


def _verb(name: str) -> Any:
    if name == "certify":
        from ._certify import run_certify

        return run_certify
    if name == "watch":
        from ._watch import run_watch

        return run_watch
    from ._report import run_report

    return run_report


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Any, category: Any, *place: Any, **more: Any) -> None:
    sys.stderr.write(f"smoothcert: warning: {' '.join(str(message).split())}\n")
