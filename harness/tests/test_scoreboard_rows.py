"""In front of which instructions a kernel waits for its loads of tensor memory."""

from scoreboard_case import DECLARE, LD0, LD1, WAIT, lines, reads_of, waits_of


def test_a_read_waits_for_its_own_load_only():
    # All are read at the end, so that no two share a row.
    end = [f"add.u32 %r5, %r5, %r{k};" for k in (1, 3, 4)]
    text = lines(DECLARE, LD0, LD1, "add.u32 %r5, %r2, 1;", *end)
    assert waits_of(text) == {3: {1}, 5: {2}}


def test_a_read_waits_once():
    text = lines(DECLARE, LD0, "add.u32 %r5, %r2, 1;", "add.u32 %r5, %r5, %r1;")
    assert waits_of(text) == {2: {1}}


def test_a_write_waits_too():
    text = lines(DECLARE, LD0, "mov.u32 %r1, 5;", "mov.u32 %r2, 5;")
    text = lines(text, "add.u32 %r5, %r2, %r1;")
    assert waits_of(text) == {2: {1}}
    assert reads_of(text) == {}


def test_the_first_read_is_told_behind_a_write_that_waited():
    text = lines(DECLARE, LD0, "mov.u32 %r1, 5;", "add.u32 %r5, %r2, %r1;")
    assert waits_of(text) == {2: {1}, 3: {1}}
    assert reads_of(text) == {3: {1}}


def test_a_register_given_anew_is_no_read_of_the_load():
    text = lines(DECLARE, LD0, LD0, "add.u32 %r5, %r2, 1;", "add.u32 %r5, %r2, 1;")
    assert reads_of(text) == {3: {2}}


def test_a_load_over_a_load_waits_for_it():
    assert waits_of(lines(DECLARE, LD0, LD0, "add.u32 %r5, %r2, 1;")) == {
        2: {1},
        3: {2},
    }


def test_nothing_waits_after_a_wait():
    assert waits_of(lines(DECLARE, LD0, WAIT, "add.u32 %r5, %r2, %r1;")) == {}


def test_a_wait_that_may_be_skipped_does_not_count():
    text = lines(DECLARE, LD0, f"@%p {WAIT}", "add.u32 %r5, %r2, %r1;")
    assert waits_of(text) == {3: {1}}


def test_an_address_and_a_pair_are_uses():
    assert waits_of(lines(DECLARE, LD0, "ld.shared.b32 %r5, [%r1];")) == {2: {1}}
    assert waits_of(lines(DECLARE, LD0, "mov.b64 %w, {%r3, %r2};")) == {2: {1}}


def test_a_load_pending_around_a_loop():
    text = lines(
        DECLARE,
        "L:",
        "add.u32 %r5, %r1, 1;",
        LD0,
        "setp.lt.u32 %p, %r0, 4;",
        "@%p bra L;",
        "mov.u32 %r6, %r2;",
    )
    assert waits_of(text) == {2: {3}, 6: {3}}


def test_a_load_pending_through_jumps_backwards():
    text = lines(DECLARE, "bra THREE;", "ONE:", "add.u32 %r5, %r1, 1;", "ret;")
    text = lines(text, "TWO:", "bra ONE;", "THREE:", LD0, "bra TWO;")
    assert waits_of(text) == {3: {8}}


def test_a_load_pending_on_one_side_of_a_branch():
    text = lines(
        DECLARE,
        "@%p bra OVER;",
        LD0,
        "OVER:",
        "add.u32 %r5, %r1, 1;",
    )
    assert waits_of(text) == {4: {2}}


def test_a_row_that_another_register_took_over_waits():
    # %r1 and %r2 are never read: their rows go to %r5, whose write must not be undone.
    text = lines(DECLARE, LD0, "mov.u32 %r5, 5;", "mov.u32 %r6, 6;")
    text = lines(text, "add.u32 %r7, %r5, %r6;", "st.shared.b32 [%r0], %r7;")
    assert waits_of(text) == {2: {1}}


# --- what is only moved is not read ---------------------------------------------------
