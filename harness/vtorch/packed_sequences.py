"""Packed sequences: padded batches made dense along time, and back.

torch keeps their lengths on the host, and its own two calls make tensors where the
host's memory is. These do the same from operators that know the device
(`torch.nn.utils.rnn.pack_padded_sequence`, `pad_packed_sequence`).
"""

from __future__ import annotations

import torch


def pack(
    padded: torch.Tensor,
    lengths: torch.Tensor,
    batch_first: bool,  # noqa: FBT001 -- the signature of torch
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of a padded batch by time, and how many there are at each.

    Args:
        padded: (time, batch, ...), or (batch, time, ...).
        lengths: int64 (batch,) on the host, falling.
        batch_first: Which of the two it is.

    Returns:
        Rows (total, ...), and int64 (longest,) on the host.

    Raises:
        RuntimeError: the lengths do not fit, or one is not positive.
    """
    by_time = padded.transpose(0, 1) if batch_first else padded
    counted: list[int] = lengths.tolist()
    if len(counted) != by_time.shape[1]:
        raise RuntimeError(
            "Expected `len(lengths)` to be equal to batch_size, but got "
            f"{len(counted)} (batch_size={by_time.shape[1]})"
        )
    if not counted or min(counted) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in "
            "'lengths' that is <= 0"
        )
    if counted != sorted(counted, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` "
            "is True"
        )
    sizes = [sum(length > at for length in counted) for at in range(counted[0])]
    rows = torch.cat([by_time[at, :size] for at, size in enumerate(sizes)])
    return rows, torch.tensor(sizes, dtype=torch.int64, device="cpu")


def pad(
    rows: torch.Tensor,
    sizes: torch.Tensor,
    batch_first: bool,  # noqa: FBT001 -- the signature of torch
    value: float,
    total: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Undo `pack`; what is not there gets a value.

    Args:
        rows: (sum of sizes, ...).
        sizes: int64 (longest,) on the host.
        batch_first: Whether the batch is to be the first dimension.
        value: Of what is filled up.
        total: Extent of time, or 0 for that of the longest.

    Returns:
        The batch, and the lengths: int64 (batch,) on the host.

    Raises:
        RuntimeError: `total` is less than the longest.
    """
    counted: list[int] = sizes.tolist()
    batch, extent = counted[0], len(counted)
    if total > 0:
        if total < extent:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest "
                f"sequence in input, but got total_length={total} and max sequence "
                f"length being {extent}"
            )
        extent = total
    at, steps = 0, []
    for size in counted:
        step = rows[at : at + size]
        rest = step.new_full((batch - size, *rows.shape[1:]), value)
        steps.append(torch.cat([step, rest]))
        at += size
    missing = extent - len(steps)
    steps += [rows.new_full((batch, *rows.shape[1:]), value)] * missing
    padded = torch.stack(steps)
    lengths = [sum(size > index for size in counted) for index in range(batch)]
    made = torch.tensor(lengths, dtype=torch.int64, device="cpu")
    return (padded.transpose(0, 1) if batch_first else padded), made
