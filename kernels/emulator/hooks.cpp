// The functions that -fsanitize=thread makes a compiler call before each access to memory. ThreadSanitizer has its own;
// these hand the address, the size and the instruction to checks.cpp.
namespace emulator {
void access(const void* where, int size, bool reads, bool writes, bool atomic, void* return_address);
}
using emulator::access;

#define CALLER __builtin_return_address(0)
#define PLAIN(size)                                                                                                    \
    void __tsan_read##size(void* where) { access(where, size, true, false, false, CALLER); }                           \
    void __tsan_write##size(void* where) { access(where, size, false, true, false, CALLER); }                          \
    void __tsan_unaligned_read##size(void* where) { access(where, size, true, false, false, CALLER); }                 \
    void __tsan_unaligned_write##size(void* where) { access(where, size, false, true, false, CALLER); }
#define READ_MODIFY_WRITE(bits, type, operation, expression)                                                           \
    type __tsan_atomic##bits##_##operation(volatile type* where, type value, int) {                                    \
        access(const_cast<type*>(where), bits / 8, true, true, true, CALLER);                                          \
        const type old = *where;                                                                                       \
        *where = expression;                                                                                           \
        return old;                                                                                                    \
    }
#define ATOMIC(bits, type)                                                                                             \
    READ_MODIFY_WRITE(bits, type, fetch_add, old + value)                                                              \
    READ_MODIFY_WRITE(bits, type, fetch_sub, old - value)                                                              \
    READ_MODIFY_WRITE(bits, type, fetch_or, old | value)                                                               \
    READ_MODIFY_WRITE(bits, type, fetch_xor, old ^ value)                                                              \
    READ_MODIFY_WRITE(bits, type, fetch_and, old & value)                                                              \
    READ_MODIFY_WRITE(bits, type, exchange, value)                                                                     \
    type __tsan_atomic##bits##_load(const volatile type* where, int) {                                                 \
        access(const_cast<type*>(where), bits / 8, true, false, true, CALLER);                                         \
        return *where;                                                                                                 \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type* where, type value, int) {                                          \
        access(const_cast<type*>(where), bits / 8, false, true, true, CALLER);                                         \
        *where = value;                                                                                                \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type* where, type* expected, type value, int, int) {    \
        access(const_cast<type*>(where), bits / 8, true, true, true, CALLER);                                          \
        if (*where == *expected) return *where = value, 1;                                                             \
        *expected = *where;                                                                                            \
        return 0;                                                                                                      \
    }

extern "C" {
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)
ATOMIC(32, unsigned) ATOMIC(64, unsigned long long)
void __tsan_read_range(void* where, long size) { access(where, size, true, false, false, CALLER); }
void __tsan_write_range(void* where, long size) { access(where, size, false, true, false, CALLER); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
