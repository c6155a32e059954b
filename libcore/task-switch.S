/* SPDX-License-Identifier: Apache-2.0 */
/* void task_switch(void **save, void *load): saves the callee-saved registers and the stack pointer, and goes on where
 * `load` was saved. New stacks are laid out by task_stack_prepare() in task.c to return into task_entry. */
#if defined(__x86_64__)
	.text
	.globl	task_switch
	.hidden	task_switch
	.type	task_switch, @function
task_switch:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	task_switch, .-task_switch
#elif defined(__aarch64__)
	.text
	.globl	task_switch
	.hidden	task_switch
	.type	task_switch, %function
task_switch:
	stp	x29, x30, [sp, #-160]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mov	x2, sp
	str	x2, [x0]
	mov	sp, x1
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	ldp	x29, x30, [sp], #160
	ret
	.size	task_switch, .-task_switch
#endif
	.section .note.GNU-stack,"",%progbits
