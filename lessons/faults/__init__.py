"""Every way in which the lessons break the engine, one file for each part of it that is broken.

A fault is a function that is given an `Engine` and replaces some of its parts; its docstring is what the student reads.
A lesson names those that its trial has to notice: `controls=[faults.mask_off, faults.norm_off]`."""

from lessons.faults.attention import (
    early_keys_preferred,
    keys_as_values,
    one_key_after_another,
    question_ignored,
    rule_without_sum,
    scale_by_d,
    scale_off,
    softmax_over_queries,
)
from lessons.faults.bert import (
    always_mask,
    cls_misread,
    hide_a_third,
    segments_off,
)
from lessons.faults.derivatives import (
    forgetful_engine,
    gradcheck_generous,
    gradcheck_one_difference,
    half_a_product_rule,
    impatient_backward,
    last_word_counts,
    linear_rule_wasteful,
)
from lessons.faults.heads import (
    bias_for_each_head,
    every_head_projects_all,
    head_in_two_halves,
    heads_tied,
    no_output_projection,
)
from lessons.faults.kernels import (
    another_scale,
    another_seed,
    barrier_lost,
    engine_does_not_rescale,
    gradients_off,
    logits_whole,
    matrices_for_free,
    scores_kept,
    scores_kept_in_backward,
    scores_stored,
    strides_apart,
    sum_not_rescaled,
    watch_asleep,
)
from lessons.faults.many_hands import (
    backward_for_free,
    gradients_in_one_byte,
    local_norm,
    mean_of_means,
    one_dropout_seed,
    order_of_arrival,
    reduced_too_early,
    ring_of_whole_arrays,
    ring_one_lap_short,
    slice_forgotten,
    tree_without_the_way_down,
    weights_not_shared,
    weights_shared_twice,
)
from lessons.faults.masks import (
    causal_forced,
    cross_masked,
    cross_off,
    diagonal_hidden,
    empty_row_answered,
    encoder_masked,
    mask_after_softmax,
    mask_off,
    one_too_many,
    padding_seen,
    short_sighted,
)
from lessons.faults.models import (
    decoder_blind_to_the_source,
    feed_forward_width_ignored,
    head_reads_two_numbers,
    head_tied_to_embedding,
    head_without_bias,
    linear_without_bias,
    norm_left_out,
    norm_off,
    one_layer_used_four_times,
    tables_not_shared,
    unregistered_weights,
    unscaled_words,
    updates_lost,
)
from lessons.faults.modern_parts import (
    cache_for_every_head,
    gate_is_up,
    gate_with_bias,
    groups_dealt_out,
    keys_written_out,
    layout_ignored,
    norm_always_after,
    rms_of_the_sum,
    rms_takes_the_mean_off,
    rms_without_root,
    rotary_added,
    rotary_off,
    rotary_squared,
    rows_left_alone,
    rows_of_one_head,
    way_around_lost,
)
from lessons.faults.positions import (
    encoding_appended,
    encoding_multiplied,
    encoding_off,
    encoding_stays,
    positions_learned,
    positions_off,
    positions_repeat,
    positions_restart,
    random_table,
    sine_only,
    waves_unpaired,
)
from lessons.faults.quantised import (
    cut_instead_of_rounded,
    halves_exchanged,
    head_of_its_own,
    largest_cut_off,
    least_forgotten,
    memory_by_weights,
    neighbours_scale,
    numbers_kept_beside,
    one_scale_a_row,
)
from lessons.faults.real_models import (
    bands_upside_down,
    eps_forgotten,
    eps_of_pytorch,
    eps_outside_the_root,
    half_the_rate,
    heads_dealt_out,
    keys_of_another_head,
    late_moments_fade,
    layers_idle,
    moments_numbered,
    no_window,
    places_off,
    questions_as_keys,
    sound_backwards,
    sound_places_off,
    sound_unheard,
    words_alone,
    words_off_by_one,
)
from lessons.faults.sequence_layers import (
    dilation_ignored,
    kernel_padded_with_zeros,
    read_again_from_the_start,
    sequence_closed_to_a_ring,
    state_lost,
)
from lessons.faults.symptoms import REPORTED, symptoms
from lessons.faults.tokenizers import (
    always_the_fewest,
    every_word_counts_once,
    first_place_only,
    inside_as_outside,
    merges_from_the_left,
    merges_last_first,
    only_plain_bytes,
    pieces_decoded_alone,
    second_thoughts,
    shortest_piece_first,
    spaces_trimmed,
    words_not_separated,
)
from lessons.faults.training_memory import masks_drawn_anew, nothing_recomputed, results_kept, tape_never_freed
from lessons.faults.transfer import (
    base_forgotten,
    base_shared,
    stale_cache,
    weights_shuffled,
)
from lessons.faults.translation import (
    blank_source,
    forbids_nothing,
    leaked_target,
    sound,
    trained_on_the_source,
)
from lessons.harness.engine import broken
