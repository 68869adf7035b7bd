"""What admission may do, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.denials import Alters, Denies
from tests.support.model_server import OURS

_names = st.sampled_from(OURS)
_codes = st.one_of(st.sampled_from([401, 403, 404, 409, 410, 413, 422, 429, 500, 503]), st.integers(400, 599))

denials = st.one_of(
    st.builds(Denies, _names, _codes),
    st.builds(Denies, _names, st.sampled_from([401, 403, 413, 422]), st.just("policy")),
    st.builds(Denies, _names, st.sampled_from([409, 422]), st.just("opaque")),
    st.builds(Denies, _names, st.sampled_from([500, 503]), st.just("storage")),
    st.builds(Denies, _names, st.sampled_from([403, 500]), most=st.integers(0, 5)),
)
alterations = st.one_of(
    st.builds(Alters, _names, st.sampled_from([None, "3", "1k"])),
    st.builds(Alters, st.just("annotation"), st.sampled_from([None, "", "{}", '{"example.com/a":1}', "garbage"])),
    st.builds(Alters, st.just("condition"), st.sampled_from([None, "altered"])),
)
