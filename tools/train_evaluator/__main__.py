"""`python -m tools.train_evaluator [NAME ...]`: the embedded evaluators anew; all, or those named."""

from __future__ import annotations

import sys

from nfqa.files.paths import find_root

from .train import RECIPES, train_evaluator


def main(names: list[str]) -> int:
    """Train in turn; returns the exit code: 2 for wrong input, 130 when interrupted (the same command continues)."""
    root = find_root()
    try:
        for name in names or RECIPES:
            folder = train_evaluator(root, name)
            print(f"{folder.relative_to(root)}: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB")
    except KeyboardInterrupt:
        print("\ninterrupted; the same command continues from the last checkpoint", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
