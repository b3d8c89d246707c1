// Entry points of the functions that are passed on: symbols.inc as code.
//
//   state of the thread asks for nothing, original known:   jump to the original, the process's or that of the caller's copy
//   else, and always for kind `push`:                        smelt_openmp_before(index, caller), then jump
//
// Kind `task` takes a note in smelt_openmp_tasks first.
//
// No register that carries an argument is changed on the way, so signatures need not be known. An index counts the
// lines of symbols.inc; runtime.cpp counts them in the same order.

#if defined(__x86_64__) || defined(__aarch64__)

#define MASK_observe 9
#define MASK_alter 11
#define MASK_task 11
#define MASK_stop 255
#define MASK_push 0

#define TASK_observe 0
#define TASK_alter 0
#define TASK_task 1
#define TASK_stop 0
#define TASK_push 0

  .text
  .set index, 0

#if defined(__x86_64__)

// Test of a thread-local byte, then the jump.
.macro entry label, mask, task
  .p2align 4
  .type \label, @function
\label:
.if \task
  movq smelt_openmp_tasks@gottpoff(%rip), %r11
  movb $1, %fs:(%r11)
.endif
.if \mask
  movq smelt_openmp_state@gottpoff(%rip), %r11
  testb $\mask, %fs:(%r11)
  jnz 1f
  movq smelt_openmp_originals+8*index(%rip), %r11
  testq %r11, %r11
  jz 2f
  jmp *%r11
.endif
1:
  movl $index, %r11d
  jmp slow
2:
  movl $index, %r11d
  jmp of_copy
  .size \label, . - \label
  .set index, index + 1
.endm

of_copy:
  .cfi_startproc
  pushq %rax
  .cfi_adjust_cfa_offset 8
  movq smelt_openmp_bound@gottpoff(%rip), %r10
  movl %fs:(%r10), %eax
  shrl $16, %eax
  jz 1f
  shll $9, %eax
  addl %r11d, %eax
  leaq smelt_openmp_originals_of_copies(%rip), %r10
  movq (%r10,%rax,8), %r10
  testq %r10, %r10
  jz 1f
  movq smelt_openmp_bound@gottpoff(%rip), %rax
  movl $0, %fs:(%rax)
  popq %rax
  .cfi_adjust_cfa_offset -8
  jmp *%r10
  .cfi_adjust_cfa_offset 8
1:
  popq %rax
  .cfi_adjust_cfa_offset -8
  jmp slow
  .cfi_endproc

slow:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
  movq %rdi, -8(%rbp)
  movq %rsi, -16(%rbp)
  movq %rdx, -24(%rbp)
  movq %rcx, -32(%rbp)
  movq %r8, -40(%rbp)
  movq %r9, -48(%rbp)
  movq %rax, -56(%rbp)
  movups %xmm0, -80(%rbp)
  movups %xmm1, -96(%rbp)
  movups %xmm2, -112(%rbp)
  movups %xmm3, -128(%rbp)
  movups %xmm4, -144(%rbp)
  movups %xmm5, -160(%rbp)
  movups %xmm6, -176(%rbp)
  movups %xmm7, -192(%rbp)
  movl %r11d, %edi
  movq 8(%rbp), %rsi
  call smelt_openmp_before
  movq %rax, %r11
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  movq -56(%rbp), %rax
  movups -80(%rbp), %xmm0
  movups -96(%rbp), %xmm1
  movups -112(%rbp), %xmm2
  movups -128(%rbp), %xmm3
  movups -144(%rbp), %xmm4
  movups -160(%rbp), %xmm5
  movups -176(%rbp), %xmm6
  movups -192(%rbp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc

// A region whose arguments are too many for the C++ side goes to the original as it is.
  .globl __kmpc_fork_call
  .type __kmpc_fork_call, @function
__kmpc_fork_call:
  cmpl $SMELT_MOST_ARGUMENTS, %esi
  ja fork_call_passed_on
  jmp smelt_openmp_fork_call
  .size __kmpc_fork_call, . - __kmpc_fork_call

// What the C library's functions do depends on who calls: hence the jump. before() returns where to.
.macro jump_after before, name
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call \before
  movq %rax, %r11
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
  .size \name, . - \name
.endm

jump_after smelt_openmp_looked_up, dlsym
jump_after smelt_openmp_opened, dlopen

// Stubs: which copy of a runtime the caller is bound to, and which entry it calls (bindings.hpp).
  .p2align 4
  .globl smelt_openmp_stubs
  .hidden smelt_openmp_stubs
smelt_openmp_stubs:
  .set copy, 1
  .rept 8
  .set number, 0
  .rept 640
  .p2align 4
  movl $(copy*65536+number), %r11d
  jmp bound
  .set number, number + 1
  .endr
  .set copy, copy + 1
  .endr
  .p2align 4
bound:
  movq smelt_openmp_bound@gottpoff(%rip), %r10
  movl %r11d, %fs:(%r10)
  movzwl %r11w, %r11d
  leaq smelt_openmp_targets(%rip), %r10
  jmp *(%r10,%r11,8)

#else

.macro entry label, mask, task
  .p2align 4
  .type \label, %function
\label:
.if \task
  adrp x16, :gottprel:smelt_openmp_tasks
  ldr x16, [x16, :gottprel_lo12:smelt_openmp_tasks]
  mrs x17, tpidr_el0
  mov w9, #1
  strb w9, [x17, x16]
.endif
.if \mask
  adrp x16, :gottprel:smelt_openmp_state
  ldr x16, [x16, :gottprel_lo12:smelt_openmp_state]
  mrs x17, tpidr_el0
  ldrb w16, [x17, x16]
  mov w17, #\mask
  tst w16, w17
  b.ne 1f
  adrp x16, smelt_openmp_originals+8*index
  ldr x16, [x16, :lo12:smelt_openmp_originals+8*index]
  cbz x16, 2f
  br x16
.endif
1:
  mov w16, #index
  b slow
2:
  mov w16, #index
  b of_copy
  .size \label, . - \label
  .set index, index + 1
.endm

of_copy:
  adrp x17, :gottprel:smelt_openmp_bound
  ldr x17, [x17, :gottprel_lo12:smelt_openmp_bound]
  mrs x9, tpidr_el0
  ldr w10, [x9, x17]
  lsr w10, w10, #16
  cbz w10, slow
  add w10, w16, w10, lsl #9
  adrp x11, smelt_openmp_originals_of_copies
  add x11, x11, :lo12:smelt_openmp_originals_of_copies
  ldr x11, [x11, x10, lsl #3]
  cbz x11, slow
  str wzr, [x9, x17]
  br x11

slow:
  .cfi_startproc
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset 29, -224
  .cfi_offset 30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov w0, w16
  mov x1, x30
  bl smelt_openmp_before
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  .cfi_restore 29
  .cfi_restore 30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc

  .globl __kmpc_fork_call
  .type __kmpc_fork_call, %function
__kmpc_fork_call:
  cmp w1, #SMELT_MOST_ARGUMENTS
  b.hi fork_call_passed_on
  b smelt_openmp_fork_call
  .size __kmpc_fork_call, . - __kmpc_fork_call

.macro jump_after before, name
  .globl \name
  .type \name, %function
\name:
  .cfi_startproc
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  stp x0, x1, [sp, #16]
  bl \before
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore 29
  .cfi_restore 30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size \name, . - \name
.endm

jump_after smelt_openmp_looked_up, dlsym
jump_after smelt_openmp_opened, dlopen

  .p2align 4
  .globl smelt_openmp_stubs
  .hidden smelt_openmp_stubs
smelt_openmp_stubs:
  .set copy, 1
  .rept 8
  .set number, 0
  .rept 640
  .p2align 4
  mov w16, #number
  movk w16, #copy, lsl #16
  b bound
  .set number, number + 1
  .endr
  .set copy, copy + 1
  .endr
  .p2align 4
bound:
  adrp x17, :gottprel:smelt_openmp_bound
  ldr x17, [x17, :gottprel_lo12:smelt_openmp_bound]
  mrs x9, tpidr_el0
  str w16, [x9, x17]
  and x16, x16, #0xffff
  adrp x17, smelt_openmp_targets
  add x17, x17, :lo12:smelt_openmp_targets
  ldr x16, [x17, x16, lsl #3]
  br x16

#endif

.macro plain name, mask, task
  .globl \name
  entry \name, \mask, \task
.endm

// Two entries under one name: `label` is the entry, `name` what others see.
.macro versioned label, name, version, mask, task
  .globl \label
  .symver \label, \name\version, remove
  entry \label, \mask, \task
.endm

#define SMELT_GOMP(name, kind) plain name, MASK_##kind, TASK_##kind
#define SMELT_KMP(name, kind) plain name, MASK_##kind, TASK_##kind
#define SMELT_OMP_GNU(name, version, kind) versioned gnu_##name, name, @version, MASK_##kind, TASK_##kind
#define SMELT_OMP_LLVM(name, kind) versioned llvm_##name, name, @@VERSION, MASK_##kind, TASK_##kind
#include "shims/openmp/symbols.inc"

  entry fork_call_passed_on, MASK_push, 0

  .section .note.GNU-stack, "", %progbits

#endif
