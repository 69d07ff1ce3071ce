"""What a dry run found: rows as the model reads them, its first loss, and what a step of each kind costs."""

from pydantic import BaseModel


class Token(BaseModel):
    """A token of a row, by its text."""

    text: str
    special: bool


class ShownRow(BaseModel):
    """A row that is trained on; the label is null where the model reads one text as several rows."""

    label: str | None
    tokens: list[Token]


class StepCosts(BaseModel):
    """Seconds and sizes of one kind of step. What has a default is missing in dry runs of older versions."""

    regularizers: list[str]
    seconds_to_load: float
    seconds_per_step: float
    seconds_per_row: float
    """Of a row that is only looked at."""
    seconds_per_look: float
    """Of a measurement of the layers."""
    inputs_per_row: float
    """Rows that the model reads for each row of the file: several where they are windows."""
    probe_rows: int
    least_steps_apart: float
    """Between two measurements of a run that does not say how many."""
    shrinkage_rows: int
    reference_rows: int
    parameters: int
    layers: int
    width: int
    device: str
    seconds_per_measured_row: float = 0.0
    seconds_per_test_row: float = 0.0
    seconds_per_measuring: float = 0.0
    seconds_of_pairs: float = 0.0
    pair_rows: int = 1
    most_pair_rows: int = 0
    fastest: dict[str, float] = {}
    """The seconds above by name, of the fastest pass; these are means of all passes."""
    slowest: dict[str, float] = {}


class DryRunResults(BaseModel):
    """What a dry run found, of some rows of the data set and one configuration of each kind."""

    rows: list[ShownRow]
    label_names: list[str] | None
    loss: float
    """On these rows before any step."""
    loss_of_guessing: float | None
    max_length: int
    longest: int
    """Tokens of the longest row timed."""
    n_cut: int
    n_timed: int
    kinds: list[StepCosts]
