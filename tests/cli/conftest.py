"""A file of a user's own."""

import pytest


@pytest.fixture
def reviews(tmp_path):
    """Write a file with columns input and output, and return its name."""

    def write(count=40):
        rows = [
            f"a {('dull', 'bright')[i % 2]} film number {i},{('bad', 'good')[i % 2]}" for i in range(count)
        ]
        (tmp_path / "mine.csv").write_text("\n".join(["input,output", *rows]) + "\n")
        return str(tmp_path / "mine.csv")

    return write
