"""Machine code that brings all it calls: a kernel's bits depend neither on who compiled it nor on what ran before.

A compiled kernel contains a copy of each helper it calls, and of the loop that its threads share. Numba marks these
copies as replaceable ("weak"): if a function of that name is in memory already, a kernel that is loaded uses it
instead of its own copy. In the process that compiles, it is: the helper that was compiled by itself before, optimised
once where the copy was optimised again as a part of the kernel, and sums may be regrouped at each time. So whoever
compiled a kernel got other last bits than whoever loaded it later. Here the copies become private to their kernel.

What is copied is the helper as it was before it became machine code itself. The last steps of that rewrite addresses
in a way that no optimisation may see again: the first row of an array, at distance 0, is then an address that begins
with the pointer 0, and LLVM would drop what is done there as impossible.

Since a kernel has its copies, the originals need no machine code unless somebody asks for their address, and what
Numba wraps around a loop need not be optimised before the kernel is: compiling takes a fifth to a quarter less time.
"""

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

REPLACEABLE = {Linkage.linkonce_any, Linkage.linkonce_odr, Linkage.weak_any, Linkage.weak_odr}
WRAPPINGS = ("parallelgufuncwrapper", "_GufuncWrapper")  # a few lines each, around a copy of the loop


class SelfContained(JITCodeLibrary):
    def _finalize_final_module(self):
        for function in self._final_module.functions:
            if function.linkage in REPLACEABLE and not function.is_declaration:
                function.linkage = Linkage.internal
        self._finalized = True
        self._get_module_for_linking()  # remembers the copy for those who call this kernel
        super()._finalize_final_module()


class Part(JITCodeLibrary):
    """Code that will be copied into a kernel, and be optimised there once more. It becomes machine code only when
    somebody asks for its address."""

    is_machine_code = False

    def _optimize_final_module(self):
        if not any(name in self.name for name in WRAPPINGS):  # what they wrap has been optimised already
            super()._optimize_final_module()

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        if not self.is_machine_code:
            self.is_machine_code = True
            self._get_module_for_linking()  # as above
            super()._finalize_final_module()
        return super().get_pointer_to_function(name)


class KernelCompiler(Compiler):
    """Numba's own, for `numba.njit(pipeline_class=...)`, with libraries of the kinds above."""

    def _compile_core(self):
        state, codegen = self.state, self.state.targetctx.codegen()
        if state.library is None:
            state.library = SelfContained(codegen, state.func_id.func_qualname)
            state.library.enable_object_caching()  # so that its machine code can be kept on disk
        former, codegen._library_class = codegen._library_class, Part  # Numba compiles under a lock of its own
        try:
            return super()._compile_core()
        finally:
            codegen._library_class = former
