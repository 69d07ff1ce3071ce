"""Numbers in what scripts and archives send, checked by pydantic."""

from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat

from isoscope.core.number_limits import GREATEST, bounded

Number = Annotated[FiniteFloat, Field(ge=-GREATEST, le=GREATEST), AfterValidator(bounded)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
