"""Findings: their meaning, how each is decided, and what to do about it. Standard library only."""

from dataclasses import dataclass

from isotropy.catalog.sources import ETHAYARAJH_2019, MU_2018, RADOVANOVIC_2010, RUDMAN_2022, TIMKEY_2021

HEALTHY = "The 99.9% point of Gaussian clouds and of clouds with heavy tails (t5)"


@dataclass(frozen=True, kw_only=True)
class FindingEntry:
    """A finding, described in plain text."""

    slug: str
    name: str
    meaning: str
    statistic: str
    limit: str  # Limit beyond which it is reported
    effect: str  # What is measured again, and after which fix
    advice: str
    advice_by_label: str = ""  # Advice if the labels explain the parts
    advice_by_distance: str = ""  # What to do instead of hubs by distance alone
    pitfall: str
    citation: str = "This project."
    # Singular and plural for its rows or dimensions, if the cloud can be measured without them.
    removed_nouns: tuple[str, str] | None = None
    method: str = ""  # Slug of a method of `isotropy.catalog.METHODS` that fixes it; empty if none does


NEIGHBORS_KEPT = "top10_kept"  # Effect: the share of the 10 nearest neighbors that stay
# Names of effects that are not measures of the catalog.
EFFECTS = {NEIGHBORS_KEPT: "Top-10 neighbors kept", "energy_distance": "Energy distance (0 to 1)"}

_ENTRIES = (
    FindingEntry(
        slug="not_finite",
        name="Values that are not finite",
        meaning="Some rows have NaN or infinity.",
        statistic="The number of rows with such values.",
        limit="One row. An error if no other row is left.",
        effect="IsoScore, undefined with these rows.",
        advice="Find where the values come from: overflow in float16 and empty texts are common. Then encode again.",
        pitfall="Every measure leaves these rows out, so the other numbers describe the rest.",
    ),
    FindingEntry(
        slug="transposed",
        name="Rows and columns swapped",
        meaning="Each row looks like a dimension, and each column like a text.",
        statistic="The spread of the row means and of the column means, each over that by chance; the lengths of "
        "the columns.",
        limit="Only with fewer rows than dimensions: columns of length 1, or means of rows of length 1, of either "
        "sign, that differ more than 20 times as much as by chance, which a cloud with axes turned at random exceeds "
        "less than once in 100,000, and 10 times as much as column means.",
        effect="IsoScore of the columns.",
        advice="Choose the other orientation in the selection, or transpose the array, and measure again.",
        pitfall="Values that rise and fall together in a whole row, such as pixels of dark and light pictures, "
        "look alike. Swapped files that are centered are not found.",
    ),
    FindingEntry(
        slug="zero_rows",
        name="Zero rows",
        meaning="Some rows are zero in every dimension.",
        statistic="The length of each row.",
        limit="A millionth of the median length, where fewer than 0.001 such rows are expected from the share of "
        "zeros in each dimension. Always a warning: cosines with such rows are undefined.",
        effect="The share of rows that have neighbors by cosine.",
        advice="Encode these rows again: empty texts and failed requests are common. Otherwise remove them.",
        pitfall="In sparse counts, rows of zeros are normal and are not a finding.",
        removed_nouns=("zero row", "zero rows"),
    ),
    FindingEntry(
        slug="truncated_rows",
        name="Truncated rows",
        meaning="Some rows hold only their first dimensions; the others are filled with one value.",
        statistic="How many dimensions at the end of a row repeat its last value.",
        limit="Fewer than 0.001 such rows expected: if each dimension has the value as often as in whole rows, and"
        " if the repeats of the row lie anywhere in it. Always a warning: these rows are compared by a part of "
        "themselves.",
        effect="IsoScore without these rows.",
        advice="Encode these rows again with as many dimensions as the others, or cut all rows to the shorter length.",
        pitfall="Finds only ends of rows. A row without its middle is not found.",
        removed_nouns=("truncated row", "truncated rows"),
    ),
    FindingEntry(
        slug="constant_dimensions",
        name="Constant dimensions",
        meaning="Some dimensions have the same value in every row.",
        statistic="The variance of each dimension.",
        limit="At most 1e-12 of the squared mean of the dimension (1e-24 of values with digits beyond float32) or "
        "of the median variance: rounding.",
        effect="IsoScore without these dimensions.",
        advice="Drop each listed dimension. It takes space, lowers IsoScore, and is the same in every row.",
        pitfall="With few rows a rare feature can look constant.",
        removed_nouns=("constant dimension", "constant dimensions"),
    ),
    FindingEntry(
        slug="metadata_as_coordinates",
        name="Metadata among the coordinates",
        meaning="Some columns hold ids, labels, counts, prices or times rather than coordinates.",
        statistic=(
            "Whether all values of a dimension are whole or rounded numbers, are a few values that recur, or count "
            "the rows."
        ),
        limit="All rows of a dimension, in at most a quarter of the dimensions. If more, the file is written that way.",
        effect="IsoScore and the top-10 neighbors without these dimensions.",
        advice="Leave each listed column out of the vectors. Use it for names, labels or groups instead.",
        pitfall="Does not recognize metadata with arbitrary fractions, such as times scaled to [0, 1].",
        removed_nouns=("dimension of metadata", "dimensions of metadata"),
    ),
    FindingEntry(
        slug="duplicate_rows",
        name="Duplicate rows",
        meaning="Some rows repeat an earlier row, exactly or up to rounding. The first of each is not listed.",
        statistic="How many of the 10 nearest neighbors are duplicates.",
        limit=(
            "One duplicate: continuous clouds have none. Up to rounding: 0.5% of the length and of the usual distance, "
            "with hardly any other row up to four times as far. A warning above 5% of the rows or of the neighbors."
        ),
        effect="The top-10 neighbors without duplicates, and IsoScore if they are more than 1% of the rows.",
        advice="Remove duplicates before you index or measure, unless a text is meant to count that often.",
        pitfall=("Does not find the same text in other letters. Above 200,000 rows, finds only exact duplicates."),
        removed_nouns=("duplicate row", "duplicate rows"),
    ),
    FindingEntry(
        slug="outlier_rows",
        name="Outlier rows",
        meaning="A few rows lie so far out that they determine the scores.",
        statistic="How surprising the squared distances of the farthest rows from the median are (Berk & Jones 1979).",
        limit="The 99.9% point of clouds with tails as heavy as the other rows allow (t5 to t10): docs/statistics.md, "
        "Outlier rows.",
        effect="IsoScore without these rows, bias-corrected first.",
        advice="Look at each listed row. Remove errors and measure again.",
        pitfall="More than a tenth of the rows count as part of the cloud, not as outliers.",
        removed_nouns=("outlier row", "outlier rows"),
    ),
    FindingEntry(
        slug="doubled_dimensions",
        name="Doubled dimensions",
        meaning="Some dimensions repeat an earlier one. The first of each is not listed.",
        statistic="The variance of the difference of two dimensions, over the sum of their variances.",
        limit="0.00001, which is rounding to half precision. A warning if the score or the neighbors change, or "
        "more than 5% of the dimensions are repeats.",
        effect="IsoScore and the top-10 neighbors without these dimensions.",
        advice="Drop each listed dimension. Check how the columns were joined.",
        pitfall="Finds equal values only, not multiples or opposites.",
        removed_nouns=("doubled dimension", "doubled dimensions"),
    ),
    FindingEntry(
        slug="saturated_dimensions",
        name="Saturated values",
        meaning="Values are cut off at the ends of their range, as in int8 with too small a scale.",
        statistic="How often the largest and the smallest value of a dimension occur, and the ten next to them.",
        limit="0.5% of the values at one end, and more than twice as many as at each of the next ten values beyond "
        "chance (binomial, 0.001 over all dimensions). A warning if the neighbors change or more than 5% of all values "
        "are cut off.",
        effect="Top-10 neighbors, compared with values that go on beyond the end as a normal distribution does.",
        advice="Quantize again with a larger scale, from the largest absolute value or its 99.9% point.",
        pitfall="Zeros at an end are a rectifier, and fewer than 64 different values a code: neither is a finding.",
    ),
    FindingEntry(
        slug="rogue_dimensions",
        name="Rogue dimensions",
        meaning="A few dimensions hold far more variance, or a far larger mean, than the others.",
        statistic="The gap below the k largest of the dimensions' variances, less the decay after it. The same for "
        "their energies, which include the mean.",
        limit=f"{HEALTHY} with as many rows and dimensions, and twice the next dimension.",
        effect="IsoScore and the top-10 neighbors without these dimensions.",
        advice="Standardize or drop each listed dimension before you compare rows by cosine. Then check your task.",
        pitfall="Trained models can store information in rogue dimensions, so check your task.",
        citation=TIMKEY_2021,
        removed_nouns=("rogue dimension", "rogue dimensions"),
        method="standardisation",
    ),
    FindingEntry(
        slug="mixed_clouds",
        name="Several clouds in one",
        meaning="The rows fall into two to four separate parts, such as the outputs of two models.",
        statistic="The distance of two parts along Fisher's discriminant, in standard deviations (Ashman's D).",
        limit=f"{HEALTHY} with as many rows and dimensions, and at least 5. Each part has 10 rows or more. A warning "
        "if the score changes, or the directions of the parts are unrelated: see Rows with other directions.",
        effect="IsoScore of the largest part alone.",
        advice="Check whether the parts come from different models, layers or scripts. If so, measure each alone.",
        advice_by_label="Nothing is wrong where classes lie apart. Scores of all rows include the distance between "
        "classes. Measure one class alone for its own spread.",
        pitfall="More than four parts are clusters, such as topics, and no finding. Parts that match labels are notes.",
        citation="Ashman, Bird & Zepf (1994). Detecting Bimodality in Astronomical Datasets. AJ 108, 2348–2361.",
        removed_nouns=("row of smaller parts", "rows of smaller parts"),
    ),
    FindingEntry(
        slug="unrelated_rows",
        name="Rows with other directions",
        meaning="Some rows are near to each other only, in directions that the other rows do not have: those of "
        "another model, or with dimensions in another order.",
        statistic="The correlation of the covariances of differences between nearest neighbors in two parts, "
        "without the trace. The parts are those into which the graph of 10 nearest neighbors falls apart.",
        limit="At most 2 / √d in absolute value (0.25 for few dimensions), two standard errors of a random "
        "permutation. Both parts have about equally uneven spectra, as a rotation keeps them, and are 5 standard "
        "deviations apart on an eigenvector of the graph. Or: neighbors no nearer than 99.9% of rows with shuffled "
        "dimensions, for less than a quarter of the rows and hardly any others, which vary in the directions of the "
        "others no more than after shuffling. Always a warning.",
        effect="IsoScore of the largest part alone.",
        advice="Check whether these rows come from another model, checkpoint or layer, or have their dimensions in"
        " another order. Encode them again.",
        pitfall="In a cloud with nearly equal variances in all directions a rotation changes nothing that can be seen. "
        "Two to four clusters, each in a few directions of its own, look like models of their own.",
        removed_nouns=("row with other directions", "rows with other directions"),
        citation="Shi & Malik (2000). Normalized Cuts and Image Segmentation. IEEE PAMI 22(8), 888–905.",
    ),
    FindingEntry(
        slug="unequal_norms",
        name="Unequal norms",
        meaning="The lengths of rows differ so much that dot products and cosines have different neighbors.",
        statistic="The logarithm of the 90th over the 10th percentile of the norms.",
        limit="The 99.9% point of clouds with heavy tails (t5) with as many rows and effective dimensions.",
        effect="Top-10 neighbors by cosine that are also neighbors by dot product.",
        advice="Normalize the rows, or use cosine similarity. Check whether some rows were normalized and others not.",
        pitfall="Norms can carry meaning, such as word frequency or confidence.",
        removed_nouns=("row of unusual norm", "rows of unusual norm"),
    ),
    FindingEntry(
        slug="hubs",
        name="Hubs",
        meaning="A few rows are among the nearest neighbors of far too many others.",
        statistic="The share of 1,000 rows that a row is a top-10 neighbor of, by angle about the mean or by distance.",
        limit="By angle 1.5 times the 99.9% point of Gaussian clouds with as many rows and effective dimensions. By "
        "distance that point for rows far nearer to the center than others, which count together; or 1.5 times the "
        "largest hub of a Gaussian cloud of the same variances, where such rows take 5% of the places. The latter is a "
        "note unless you chose Euclidean distance.",
        effect="Top-10 neighbors that stay when the hubs are removed.",
        advice="Look at each listed row: empty, generic or averaged texts are common. Remove such rows from the index.",
        advice_by_distance="Compare rows by cosine, or normalize them, so that short rows are not near to all others.",
        pitfall="High-dimensional clouds always have some hubs, and heavy tails more. The limits allow for that.",
        citation=RADOVANOVIC_2010,
        removed_nouns=("hub", "hubs"),
    ),
    FindingEntry(
        slug="collapsed",
        name="Collapsed",
        meaning="The rows are all nearly equal, or use a few directions only.",
        statistic="The spread over the length of the mean; the gap in the spectrum less the decay after it.",
        limit=f"A spread below 1% of the mean. {HEALTHY} with as many rows and dimensions, where at most half of the "
        "directions hold 90% of the variance (75% within clusters), the next up to a tenth. An error if all are equal.",
        effect="Top-10 neighbors after centering; IsoScore in these directions, or without the one.",
        advice="Check the training: a collapsed loss or a constant input is common. If you intend it, keep only these "
        "directions.",
        pitfall="A spectrum that decays smoothly, however fast, does not count as collapsed. See IsoScore.",
        citation=RUDMAN_2022,
    ),
    FindingEntry(
        slug="common_mean",
        name="Common mean",
        meaning="All rows share a mean that makes every two rows similar.",
        statistic="The share of the mean in the energy.",
        limit="The share of as many centered rows by chance. A warning only above half of the energy, because most "
        "real embeddings have less.",
        effect="Top-10 neighbors by cosine that stay when the mean is subtracted.",
        advice="Subtract the mean before you compare rows by cosine, and check your task.",
        pitfall="IsoScore and distances ignore the mean.",
        citation=f"{ETHAYARAJH_2019} {MU_2018}",
        method="centring",
    ),
    FindingEntry(
        slug="too_few_rows",
        name="Too few rows",
        meaning="Plain IsoScore is biased low because there are too few rows.",
        statistic="The bias of plain IsoScore, from the number of independent rows and the participation ratio.",
        limit="A bias of 0.05, or fewer than 8 rows. A warning only with fewer rows than dimensions.",
        effect="Plain IsoScore, and the bias-corrected one.",
        advice="Measure more rows, or read the bias-corrected score with its error.",
        pitfall="Rows of one group, and exact duplicates, count as one.",
        citation=RUDMAN_2022,
    ),
    FindingEntry(
        slug="drift",
        name="Drift from the baseline",
        meaning="The embedding differs from an earlier one beyond chance.",
        statistic="Energy distance of at most 2,000 rows of each, over twice the mean distance between them; shared "
        "rows also by their top-10 neighbors.",
        limit="None of 999 permutations of rows, or of groups of rows, reaches the distance.",
        effect="Energy distance from 0 to 1, or the top-10 neighbors of shared rows that stayed.",
        advice="Compare model, preprocessing and texts of the two. Encode an index again before you mix them.",
        pitfall="With many rows any difference is beyond chance: read the size of the effect.",
        citation="Székely & Rizzo (2013). Energy statistics. J. Stat. Plan. Inference 143(8), 1249–1272.",
    ),
)

FINDINGS = {entry.slug: entry for entry in _ENTRIES}  # Every finding by its slug


def effect_name(measure: str) -> str | None:
    """Return the display name of an effect, or None if it is a measure of the catalog."""
    return EFFECTS.get(measure)
