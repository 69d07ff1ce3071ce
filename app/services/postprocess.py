"""Post-processing: ask what a method does to an embedding, look at it, make a new embedding of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from app.context import Context
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus, PostProcessing, ResultStatus
from app.db.postprocess import is_of, key_of
from app.errors import ConflictError, InvalidError, NotFoundError
from app.numerals import short
from app.queue import Job, JobKind
from app.services.embeddings import clean_name, get_embedding
from isotropy.catalog import METHODS, Parameter

KEPT = 200
"""Results of an embedding that are kept; the oldest go."""
DRAWN_ROWS = 20_000
"""Rows that a trial takes of an embedding at most: ``isotropy.cloud.PAIR_ROWS``."""
MAX_NAME_CHARACTERS = 200


class Position(NamedTuple):
    """A method of the catalogue with all of its parameters."""

    method: str
    parameters: dict[str, int | float]

    @property
    def title(self) -> str:
        """The method's name with its first parameter, and those that are not what they usually are."""
        return described(self.method, self.parameters)


def described(method: str, parameters: Mapping[str, Any]) -> str:
    """A method in words: Soft ZCA whitening, eps 0.1."""
    known = METHODS[method].parameters
    told = [
        f"{one.name} {short(parameters[one.name])}"
        for place, one in enumerate(known)
        if one.name in parameters and (place == 0 or parameters[one.name] != one.default)
    ]
    return ", ".join([METHODS[method].name, *told])


def rows_of(embedding: Embedding) -> tuple[int, int]:
    """How many rows of a measured embedding a trial takes, and how many of them a method is fitted on."""
    rows = min((embedding.n or 0) - (embedding.n_left_out or 0), DRAWN_ROWS)
    return rows, min(max(round(rows / 2), 1), max(rows - 1, 1))


def position_of(embedding: Embedding, method: str, given: Mapping[str, Any]) -> Position:
    """The position that a method and some parameters name; what is not given takes its default.

    Raises:
        InvalidError: there is no such method or parameter, or a value is out of its range for these rows.

    """
    if method not in METHODS:
        raise InvalidError(f"Expected a method among {', '.join(METHODS)}, got {method[:80]!r}.", "method")
    parameters = {one.name: one for one in METHODS[method].parameters}
    if unknown := sorted(given.keys() - parameters.keys()):
        raise InvalidError(
            f"Expected parameters of {METHODS[method].name} among {', '.join(parameters) or 'none'}, got "
            f"{unknown[0][:80]!r}: leave it out.",
            "parameters",
        )
    return Position(method, {name: _value(embedding, one, given.get(name)) for name, one in parameters.items()})


def list_postprocessings(context: Context, embedding_id: str) -> list[PostProcessing]:
    """What was tried on the vectors that are chosen now, the newest first, without the results themselves."""
    embedding = get_embedding(context, embedding_id)
    tried = select(PostProcessing).where(PostProcessing.embedding_id == embedding_id)
    newest = tried.order_by(PostProcessing.created_at.desc(), PostProcessing.id)
    with context.sessions() as session:
        found = session.scalars(newest.options(defer(PostProcessing.results)))
        return [one for one in found if is_of(one, embedding)]


def get_postprocessing(context: Context, embedding_id: str, postprocessing_id: str) -> PostProcessing:
    """One trial with its results, null until there are any."""
    with context.sessions() as session:
        found = session.get(PostProcessing, postprocessing_id)
    if found is None or found.embedding_id != embedding_id:
        raise NotFoundError(
            f"There is no post-processing {postprocessing_id!r} of this embedding; only the last {KEPT} are kept. "
            "Ask for it again."
        )
    return found


def find_postprocessing(context: Context, embedding: Embedding, position: Position) -> PostProcessing | None:
    """The trial of a position, if it was asked for."""
    with context.sessions() as session:
        return session.scalar(_of_key(embedding, position))


def last_result(context: Context, embedding: Embedding, method: str) -> PostProcessing | None:
    """The newest result of a method, to look at while another is being made."""
    ready = select(PostProcessing).where(
        PostProcessing.embedding_id == embedding.id,
        PostProcessing.method == method,
        PostProcessing.status == ResultStatus.READY,
    )
    with context.sessions() as session:
        found = session.scalar(ready.order_by(PostProcessing.created_at.desc()).limit(1))
    return found if found is not None and is_of(found, embedding) else None


def request_postprocessing(
    context: Context, embedding_id: str, method: str, given: Mapping[str, Any], instead_of: str | None = None
) -> PostProcessing:
    """Have a position tried, unless it was already; a failed one again.

    ``instead_of`` is a trial that its asker waits for no longer; it is dropped if it was not made yet.
    """
    embedding = get_embedding(context, embedding_id)
    if embedding.status is not EmbeddingStatus.READY:
        raise ConflictError(f"{embedding.name} is {embedding.status}; post-processing needs a measured embedding.")
    position = position_of(embedding, method, given)
    found = find_postprocessing(context, embedding, position)
    if instead_of is not None and (found is None or found.id != instead_of):
        _drop_waiting(context, embedding_id, instead_of)
    if found is None:
        _add(context, embedding, position)
    elif found.status is ResultStatus.FAILED:
        _repeat(context, found.id)
    if (asked := find_postprocessing(context, embedding, position)) is None:
        raise ConflictError("This embedding or this result was deleted at the same moment; ask again.")
    return asked


def create_postprocessed(
    context: Context, embedding_id: str, postprocessing_id: str, name: str | None = None
) -> Embedding:
    """Have all rows of an embedding mapped as a trial mapped some of them, as an embedding of its own."""
    source = get_embedding(context, embedding_id)
    trial = get_postprocessing(context, embedding_id, postprocessing_id)
    if trial.status is not ResultStatus.READY or trial.results is None:
        raise ConflictError(f"This trial is {trial.status}; a new embedding needs one that is ready.")
    if not is_of(trial, source):
        raise ConflictError(f"Other vectors were chosen of {source.name} since; try the method on them first.")
    title = clean_name(name, f"{source.name}, {described(trial.method, trial.parameters)}")
    made = Embedding(
        name=title,
        filename=f"{_without_slashes(title)}.npy",
        format="npy",
        origin=EmbeddingOrigin.POSTPROCESSED,
        status=EmbeddingStatus.MAKING,
        source_id=source.id,
        postprocessing_id=trial.id,
        provenance={
            "source": source.name,
            "method": trial.method,
            "parameters": trial.parameters,
            **{key: trial.results[key] for key in ("rows", "fit_rows", "seed")},
        },
    )
    with context.sessions.begin() as session:
        session.add(made)
    context.queue.enqueue(Job(JobKind.MAKE, made.id))
    return get_embedding(context, made.id)


def _without_slashes(name: str) -> str:
    return name.replace("/", "-").replace("\\", "-")


def _value(embedding: Embedding, parameter: Parameter, given: Any) -> int | float:
    fit_rows, d = rows_of(embedding)[1], embedding.d or 0
    value = parameter.default_for(d) if given is None else given
    if parameter.whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    high = parameter.high_for(fit_rows, d)
    if given is None and high is not None:
        value = min(value, high)
    if not parameter.takes(value) or (high is not None and value > high):
        numbers = "a whole number" if parameter.whole else "a number"
        to = "upwards" if high is None else f"to {high:,}"
        why = {"n": f": a method is fitted on {fit_rows:,} rows", "d": f": there are {d:,} dimensions"}
        raise InvalidError(
            f"Expected {parameter.name} as {numbers} from {parameter.low} {to}"
            f"{why.get(parameter.up_to or '', '')}; got {str(value)[:40]}.",
            parameter.name,
        )
    return value if parameter.whole else float(value)


def _of_key(embedding: Embedding, position: Position) -> Any:
    key = key_of(embedding, position.method, position.parameters)
    return select(PostProcessing).where(PostProcessing.embedding_id == embedding.id, PostProcessing.key == key)


def _add(context: Context, embedding: Embedding, position: Position) -> None:
    key = key_of(embedding, position.method, position.parameters)
    asked = PostProcessing(embedding_id=embedding.id, key=key, method=position.method, parameters=position.parameters)
    try:
        with context.sessions.begin() as session:
            session.add(asked)
            session.flush()
            gone = _drop_oldest(session, embedding.id)
    except IntegrityError:
        return  # the same was asked for, or the embedding deleted, at this moment: a look will tell
    context.queue.enqueue(Job(JobKind.POSTPROCESS, asked.id))
    context.ledger.release(*gone)


def _drop_oldest(session: Session, embedding_id: str) -> Sequence[str | None]:
    """Delete the results beyond those kept, but none that an embedding is being made by; return their files."""
    in_use = select(Embedding.postprocessing_id).where(Embedding.status == EmbeddingStatus.MAKING)
    tried = select(PostProcessing.id).where(PostProcessing.embedding_id == embedding_id)
    newest = session.scalars(tried.order_by(PostProcessing.created_at.desc(), PostProcessing.id).limit(KEPT))
    beyond = delete(PostProcessing).where(
        PostProcessing.embedding_id == embedding_id,
        PostProcessing.id.not_in(list(newest)),
        PostProcessing.id.not_in(in_use.where(Embedding.postprocessing_id.is_not(None))),
        PostProcessing.status != ResultStatus.QUEUED,
    )
    return session.scalars(beyond.returning(PostProcessing.state_sha256)).all()


def _drop_waiting(context: Context, embedding_id: str, postprocessing_id: str) -> None:
    waiting = delete(PostProcessing).where(
        PostProcessing.id == postprocessing_id,
        PostProcessing.embedding_id == embedding_id,
        PostProcessing.status == ResultStatus.QUEUED,
    )
    with context.sessions.begin() as session:
        dropped = session.scalar(waiting.returning(PostProcessing.id))
    if dropped is not None:
        context.queue.cancel(Job(JobKind.POSTPROCESS, dropped))


def _repeat(context: Context, postprocessing_id: str) -> None:
    failed = update(PostProcessing).where(
        PostProcessing.id == postprocessing_id, PostProcessing.status == ResultStatus.FAILED
    )
    queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0)
    with context.sessions.begin() as session:
        repeated = session.scalar(queued.returning(PostProcessing.id))
    if repeated is not None:
        context.queue.restart(Job(JobKind.POSTPROCESS, postprocessing_id))
