"""Which instruction reads what a load of tensor memory gave for the first time."""

import pytest
from scoreboard_case import DECLARE, LD0, LD1, WAIT, lines, reads_of, waits_of

MOVED = ".reg .b64 %u, %v; .reg .b128 %q; .reg .b16 %h<2>;"
PACK, UNPACK = "mov.b64 %w, {%r1, %r5};", "mov.b64 {%r6, %r7}, %w;"


def first_reads_behind(*text):
    return reads_of(lines(DECLARE + MOVED, LD0, *text))


@pytest.mark.parametrize(
    "moves",
    [
        ("mov.b32 %r6, %r1;",),
        ("mov.f32 %r5, %r2;", "mov.u32 %r6, %r5;"),
        (PACK, UNPACK),
        ("mov.b64 %w, {%r5, %r2};", "mov.b64 {_, %r6}, %w;"),
        (PACK, "mov.b64 %u, %w;", "mov.b64 {%r6, _}, %u;"),
        ("mov.b32 {%h0, _}, %r1;", "mov.b32 %r6, {%h1, %h0};"),
        (
            PACK,
            "mov.b128 %q, {%v, %w};",
            "mov.b128 {_, %u}, %q;",
            "mov.b64 {%r6, _}, %u;",
        ),
    ],
)
def test_a_move_is_no_read_and_what_it_gives_is(moves):
    last = len(moves) + 2
    assert first_reads_behind(*moves) == {}
    assert first_reads_behind(*moves, "add.u32 %r8, %r6, 1;") == {last: {1}}


@pytest.mark.parametrize("use", ["%r7", "%r5"])
def test_the_other_half_of_a_pack_is_nothing_of_the_load(use):
    assert first_reads_behind(PACK, UNPACK, f"add.u32 %r8, {use}, 1;") == {}


def test_a_copy_is_read_though_its_source_is_written():
    copy = "mov.b32 %r6, %r1;"
    text = copy, "mov.u32 %r1, 5;", "mov.u32 %r2, 5;"
    assert first_reads_behind(*text, "add.u32 %r8, %r1, %r2;") == {}
    assert first_reads_behind(*text, "add.u32 %r8, %r6, 1;") == {5: {1}}
    assert first_reads_behind(copy, "mov.u32 %r6, 5;", "add.u32 %r8, %r6, 1;") == {}


def test_a_move_that_may_be_skipped_leaves_what_was_there():
    text = "mov.b32 %r6, %r1;", "@%p mov.b32 %r6, %r5;", "add.u32 %r8, %r6, 1;"
    assert first_reads_behind(*text) == {4: {1}}


def test_one_read_is_enough_for_all_copies():
    text = "mov.b32 %r6, %r1;", "add.u32 %r8, %r2, 1;", "add.u32 %r8, %r6, %r1;"
    assert first_reads_behind(*text) == {3: {1}}


def test_a_pack_of_two_loads_is_read_for_both():
    text = LD1, "mov.b64 %w, {%r1, %r3};", "st.shared.b64 [%r0], %w;"
    assert first_reads_behind(*text) == {4: {1, 2}}
    text = LD1, "mov.b64 %w, {%r1, %r3};", "mov.b64 {%r6, %r7}, %w;"
    assert first_reads_behind(*text, "add.u32 %r8, %r7, 1;") == {5: {2}}


def test_a_move_is_a_read_where_its_copy_outlives_the_next_issue_of_the_load():
    """A use of the copy would tell of the later load, whose registers nobody read."""
    text = lines(
        DECLARE,
        "L:",
        LD0,
        "add.u32 %r5, %r6, 1;",
        "mov.b32 %r6, %r1;",
        "setp.lt.u32 %p, %r5, 4;",
        "@%p bra L;",
    )
    assert reads_of(text) == {4: {2}}


def test_a_move_is_none_where_its_copy_is_read_within_the_turn():
    text = lines(
        DECLARE,
        "L:",
        LD0,
        "mov.b32 %r6, %r1;",
        "add.u32 %r5, %r6, 1;",
        "setp.lt.u32 %p, %r5, 4;",
        "@%p bra L;",
    )
    assert reads_of(text) == {4: {2}}


def test_a_copy_made_on_one_side_of_a_branch():
    text = lines(DECLARE, LD0, "@%p bra OVER;", "mov.b32 %r6, %r1;", "OVER:")
    text = lines(text, "mov.u32 %r1, 0;", "add.u32 %r5, %r6, 1;")
    assert reads_of(text) == {6: {1}}


def test_a_wait_ends_what_copies_owe():
    text = "mov.b32 %r6, %r1;", WAIT, "add.u32 %r8, %r6, 1;"
    assert first_reads_behind(*text) == {}


def test_a_move_waits_though_it_is_no_read():
    assert waits_of(lines(DECLARE, LD0, "mov.b32 %r6, %r1;")) == {2: {1}}
