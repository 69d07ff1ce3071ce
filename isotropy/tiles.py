"""The smallest bounds of each point to others, from tiles that cover each pair of points once."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

# Maximum rows and columns of a tile: 4 MB in float32, which stay in the cache.
TILE_ROWS = 1024
# Diagonal tiles compute each pair twice, so clouds of few points use small tiles.
MIN_TILE_ROWS = 256
GROUP = 16  # Bounds per group; only the smallest of each group is compared first
# Maximum bounds that wait to be merged: more would include many that are no longer small, fewer merge more often.
MAX_PENDING = 100_000


def tile_spans(n: int) -> Iterator[slice]:
    rows = min(TILE_ROWS, max(MIN_TILE_ROWS, n // 8))
    for start in range(0, n, rows):
        yield slice(start, min(start + rows, n))


def tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Yield row and column slices of tiles that cover each pair of n points once, diagonal tiles first."""
    for rows in tile_spans(n):
        yield rows, rows
    for rows in tile_spans(n):
        for columns in tile_spans(n):
            if columns.start > rows.start:
                yield rows, columns


def find_smallest_bounds(
    n: int, count: int, dtype: torch.dtype, device: torch.device, compute_tile: Callable[[slice, slice], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return each of n points' ``count`` smallest bounds to others, ascending, and which these are, [n, count] each.

    No other bound of a point is below its last. ``compute_tile`` returns symmetric, finite, contiguous bounds [rows,
    columns], which may be overwritten.
    """
    smallest = _SmallestBounds(n, count, dtype, device)
    for rows, columns in tiles(n):
        if rows == columns:
            smallest.add_diagonal_tile(rows, compute_tile(rows, rows))
        else:
            smallest.add_tile(rows, columns, compute_tile(rows, columns))
    smallest.merge()
    bounds, order = smallest.bounds.sort(dim=1)
    return bounds, smallest.neighbors.gather(1, order)


def smallest_in_rows(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` smallest values of each row of contiguous x, ascending, and their columns, [rows, count].

    The number of columns must be a multiple of ``GROUP``. A topk follows only among the groups of the smallest minima,
    because minima over groups cost a tenth of a topk.
    """
    groups = x.view(len(x), GROUP, -1)
    if groups.shape[2] < count:
        smallest, columns = x.topk(count, largest=False)
        return smallest, columns
    group_indices = groups.amin(1).topk(count, largest=False, sorted=False).indices
    members = groups.gather(2, group_indices[:, None, :].expand(-1, GROUP, -1)).flatten(1)
    smallest, order = members.topk(count, largest=False)
    return smallest, order // count * groups.shape[2] + group_indices.gather(1, order % count)


class _SmallestBounds:
    """The ``count`` smallest bounds of each of n points so far; only a bound below their largest can replace one."""

    def __init__(self, n: int, count: int, dtype: torch.dtype, device: torch.device) -> None:
        self.bounds = torch.full((n, count), math.inf, dtype=dtype, device=device)
        self.neighbors = torch.zeros(n, count, dtype=torch.int64, device=device)
        self._largest_bounds = torch.full((n,), math.inf, dtype=dtype, device=device)
        self._pending_bounds: list[tuple[Tensor, Tensor, Tensor]] = []
        self._pending_count = 0

    def add_diagonal_tile(self, rows: slice, tile: Tensor) -> None:
        """Set the initial bounds of rows, from the tile of pairs among them. Overwrites ``tile``."""
        tile.fill_diagonal_(math.inf)
        tile = pad(tile, (0, -tile.shape[1] % GROUP), value=math.inf)
        count = min(self.bounds.shape[1], tile.shape[1])
        bounds, columns = smallest_in_rows(tile, count)
        self.bounds[rows, :count] = bounds
        self.neighbors[rows, :count] = columns + rows.start
        self._largest_bounds[rows] = self.bounds[rows].amax(1)

    def add_tile(self, rows: slice, columns: slice, tile: Tensor) -> None:
        """Queue the bounds of an off-diagonal tile that are below the largest bound of one of their points."""
        n_rows, n_columns = tile.shape
        if n_rows % GROUP or n_columns % GROUP:
            tile = pad(tile, (0, -n_columns % GROUP, 0, -n_rows % GROUP), value=math.inf)
        grouped_columns = tile.view(len(tile), GROUP, -1)[:n_rows]
        row, group = (grouped_columns.amin(1) < self._largest_bounds[rows, None]).nonzero(as_tuple=True)
        members = grouped_columns[row, :, group]
        hit, member = (members < self._largest_bounds[rows][row, None]).nonzero(as_tuple=True)
        neighbors = member * grouped_columns.shape[2] + group[hit] + columns.start
        self._queue(row[hit] + rows.start, neighbors, members[hit, member])
        # A pair counts for both of its points, so add it to its column too.
        grouped_rows = tile.view(-1, GROUP, tile.shape[1])
        group, column = (grouped_rows.amin(1)[:, :n_columns] < self._largest_bounds[columns]).nonzero(as_tuple=True)
        members = grouped_rows[group, :, column]
        hit, member = (members < self._largest_bounds[columns][column, None]).nonzero(as_tuple=True)
        self._queue(column[hit] + columns.start, group[hit] * GROUP + member + rows.start, members[hit, member])
        if self._pending_count > MAX_PENDING:
            self.merge()

    def _queue(self, points: Tensor, neighbors: Tensor, bounds: Tensor) -> None:
        self._pending_bounds.append((points, neighbors, bounds))
        self._pending_count += len(points)

    def merge(self) -> None:
        """Replace larger bounds of points by their pending ones."""
        if not self._pending_count:
            return
        points, neighbors, bounds = map(torch.cat, zip(*self._pending_bounds, strict=True))
        self._pending_bounds, self._pending_count = [], 0
        order = points.argsort(stable=True)
        points, neighbors, bounds = points[order], neighbors[order], bounds[order]
        count = self.bounds.shape[1]
        while len(points):
            is_first = torch.ones_like(points, dtype=torch.bool)
            is_first[1:] = points[1:] != points[:-1]
            firsts, owner = is_first.nonzero().squeeze(1), is_first.cumsum(0) - 1
            owners = points[firsts]
            rank = torch.arange(len(points), device=points.device) - firsts[owner]
            # Merge at most ``count`` new bounds per point and round: one point with very many would need a wide table.
            is_merged = rank < count
            width = count + min(int(rank.max()) + 1, count)
            table = self.bounds.new_full((len(owners), width), math.inf)
            neighbor_table = self.neighbors.new_zeros(len(owners), width)
            table[:, :count], neighbor_table[:, :count] = self.bounds[owners], self.neighbors[owners]
            cell = owner[is_merged], rank[is_merged] + count
            table[cell], neighbor_table[cell] = bounds[is_merged], neighbors[is_merged]
            smallest, columns = table.topk(count, largest=False, sorted=False)
            self.bounds[owners], self.neighbors[owners] = smallest, neighbor_table.gather(1, columns)
            self._largest_bounds[owners] = smallest.amax(1)
            is_pending = ~is_merged & (bounds < self._largest_bounds[points])
            points, neighbors, bounds = points[is_pending], neighbors[is_pending], bounds[is_pending]
