"""Runs of any experiments read together."""

from typing import Annotated

from pydantic import BaseModel, Field

from app.results.statistics.estimate import Estimate
from app.routes.api.schemas.conclusion import ConclusionOut


class MomentsOut(BaseModel):
    """A cell of a table."""

    mean: float
    std: Annotated[float | None, Field(description="Sample standard deviation; null of a single seed.")]
    n: Annotated[int, Field(description="Seeds behind it.")]

    @classmethod
    def of(cls, found: Estimate) -> "MomentsOut":
        """From a mean with its standard deviation."""
        return cls(mean=found.mean, std=found.half_width, n=found.n)


class ColumnOut(BaseModel):
    """A measure on a data set. Different data sets and metrics are never in one mean."""

    dataset: str
    measure: str


class GroupOut(BaseModel):
    """A row: runs that are alike in all that groups are made of."""

    group: Annotated[list[str], Field(description="In the order of `groups`; a dash where a setting means nothing.")]
    cells: Annotated[list[MomentsOut | None], Field(description="In the order of `columns`; null without a value.")]


class RunTableOut(BaseModel):
    """Means and standard deviations of groups of finished runs."""

    runs: Annotated[int, Field(description="Runs that were read, at most 1,000, those of the newest experiments.")]
    total: Annotated[int, Field(description="Runs that the search finds.")]
    groups: Annotated[list[str], Field(description="What groups are made of.")]
    columns: list[ColumnOut]
    rows: list[GroupOut]
    notes: Annotated[list[str], Field(description="What was left out, and what else the runs of one mean differ in.")]


class ConclusionOfRunsOut(BaseModel):
    """What the runs of a search say, on one data set by one metric."""

    runs: Annotated[int, Field(description="Runs that were read, at most 1,000, those of the newest experiments.")]
    total: Annotated[int, Field(description="Runs that the search finds.")]
    groups: Annotated[list[str], Field(description="What settings are told apart by, besides regularizer and λ.")]
    on: Annotated[str, Field(description="The data set and metric that it is of; empty where no run is found.")]
    measured: Annotated[dict[str, str], Field(description="All that `on` can be, in words.")]
    cautions: Annotated[list[str], Field(description="What has to be known before these runs are compared.")]
    conclusion: ConclusionOut


class SideOut(BaseModel):
    """A run, or an experiment where the runs are more than eight."""

    name: str
    href: str
    runs: int


class DifferingOut(BaseModel):
    """A setting in which some of the runs differ."""

    field: str
    values: Annotated[list[list[str]], Field(description="In the order of `sides`: the values of its runs.")]


class EqualOut(BaseModel):
    """A setting that is the same for all of the runs."""

    field: str
    value: str


class SettingsOut(BaseModel):
    """Settings side by side."""

    runs: Annotated[int, Field(description="Runs that were read, at most 1,000, those of the newest experiments.")]
    total: Annotated[int, Field(description="Runs that the search finds.")]
    sides: list[SideOut]
    left_out: Annotated[int, Field(description="Experiments beyond the first eight, which have no side.")]
    differing: list[DifferingOut]
    equal: list[EqualOut]
