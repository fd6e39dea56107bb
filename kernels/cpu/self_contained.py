"""Machine code that brings all it calls: a kernel's bits depend neither on who compiled it nor on what ran before.

A compiled kernel contains a copy of each helper it calls, and of the loop that its threads share. Numba marks these
copies as replaceable ("weak"): if a function of that name is in memory already, a kernel that is loaded uses it
instead of its own copy. In the process that compiles, it is: the helper that was compiled by itself before, optimised
once where the copy was optimised again as a part of the kernel, and sums may be regrouped at each time. So whoever
compiled a kernel got other last bits than whoever loaded it later. Here the copies become private to their kernel.
"""

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

REPLACEABLE = {Linkage.linkonce_any, Linkage.linkonce_odr, Linkage.weak_any, Linkage.weak_odr}


class SelfContained(JITCodeLibrary):
    def _finalize_final_module(self):
        for function in self._final_module.functions:
            if function.linkage in REPLACEABLE and not function.is_declaration:
                function.linkage = Linkage.internal
        super()._finalize_final_module()


class KernelCompiler(Compiler):
    """Numba's own, for `numba.njit(pipeline_class=...)`, with a library of the kind above."""

    def _compile_core(self):
        state = self.state
        if state.library is None:
            state.library = SelfContained(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()  # so that its machine code can be kept on disk
        return super()._compile_core()
