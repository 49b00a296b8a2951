"""Copies golden values of real models into tests/golden/real/, without white space. Usage: python copy_real.py SOURCE_FOLDER"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "real"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for source in sorted(Path(sys.argv[1]).glob("*.json")):
        value = json.loads(source.read_text())
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
        assert json.loads(text) == value
        (FOLDER / source.name).write_text(text)


if __name__ == "__main__":
    main()
