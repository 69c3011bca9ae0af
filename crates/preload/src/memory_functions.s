# memcpy, memmove, memset, memcmp, bcmp and strlen under names of our own, for x86_64 with nothing above SSE2.
#
# Up to 128 bytes are copied by loads that overlap in the middle, all of them done before the first store, so that it
# is right however source and target overlap. Longer copies load their two ends first, move 64 bytes a turn in between
# with aligned stores, and store the ends last.

.macro own name
.p2align 4
.globl coldpress_\name
.hidden coldpress_\name
.type coldpress_\name, @function
coldpress_\name:
.endm

.macro done name
.size coldpress_\name, . - coldpress_\name
.endm

.pushsection .text.coldpress_memory,"ax",@progbits

# rdi: target, rsi: source, rdx: bytes
own memmove
    mov rax, rdi
    cmp rdx, 16
    jb 2f
    cmp rdx, 32
    ja 3f
    movups xmm0, [rsi]
    movups xmm1, [rsi + rdx - 16]
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm1
    ret
2:  cmp edx, 8
    jb 4f
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
4:  cmp edx, 4
    jb 5f
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
5:  test edx, edx
    jz 7f
    movzx ecx, byte ptr [rsi]
    cmp edx, 1
    je 6f
    movzx r8d, word ptr [rsi + rdx - 2]
    mov [rdi + rdx - 2], r8w
6:  mov [rdi], cl
7:  ret
3:  movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + rdx - 32]
    movups xmm3, [rsi + rdx - 16]
    cmp rdx, 64
    ja 8f
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    ret
8:  cmp rdx, 128
    ja 9f
    movups xmm4, [rsi + 32]
    movups xmm5, [rsi + 48]
    movups xmm6, [rsi + rdx - 64]
    movups xmm7, [rsi + rdx - 48]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
    movups [rdi + rdx - 64], xmm6
    movups [rdi + rdx - 48], xmm7
    movups [rdi + rdx - 32], xmm2
    movups [rdi + rdx - 16], xmm3
    ret
9:  mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jb 20f
    # Upwards: xmm0 is the first 16 bytes, xmm8, xmm9, xmm2, xmm3 the last 64.
    movups xmm8, [rsi + rdx - 64]
    movups xmm9, [rsi + rdx - 48]
    lea r9, [rdi + rdx]
    lea rcx, [rdi + 16]
    and rcx, -16
    sub rsi, rdi
    lea r8, [r9 - 64]
    .p2align 4
10: movups xmm4, [rsi + rcx]
    movups xmm5, [rsi + rcx + 16]
    movups xmm6, [rsi + rcx + 32]
    movups xmm7, [rsi + rcx + 48]
    movaps [rcx], xmm4
    movaps [rcx + 16], xmm5
    movaps [rcx + 32], xmm6
    movaps [rcx + 48], xmm7
    add rcx, 64
    cmp rcx, r8
    jb 10b
    movups [r9 - 64], xmm8
    movups [r9 - 48], xmm9
    movups [r9 - 32], xmm2
    movups [r9 - 16], xmm3
    movups [rdi], xmm0
    ret
    # Downwards, where the target begins inside the source: xmm0, xmm1, xmm8, xmm9 are the first 64 bytes, xmm3 the
    # last 16.
20: movups xmm8, [rsi + 32]
    movups xmm9, [rsi + 48]
    lea rcx, [rdi + rdx - 1]
    and rcx, -16
    lea r9, [rdi + rdx]
    sub rsi, rdi
    lea r8, [rdi + 64]
    .p2align 4
21: movups xmm4, [rsi + rcx - 16]
    movups xmm5, [rsi + rcx - 32]
    movups xmm6, [rsi + rcx - 48]
    movups xmm7, [rsi + rcx - 64]
    movaps [rcx - 16], xmm4
    movaps [rcx - 32], xmm5
    movaps [rcx - 48], xmm6
    movaps [rcx - 64], xmm7
    sub rcx, 64
    cmp rcx, r8
    ja 21b
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm8
    movups [rdi + 48], xmm9
    movups [r9 - 16], xmm3
    ret
done memmove

# rdi: target, esi: byte, rdx: bytes
own memset
    mov rax, rdi
    movzx ecx, sil
    mov r8, 0x0101010101010101
    imul rcx, r8
    cmp rdx, 16
    jb 2f
    movq xmm0, rcx
    punpcklqdq xmm0, xmm0
    movups [rdi], xmm0
    movups [rdi + rdx - 16], xmm0
    cmp rdx, 32
    jbe 9f
    movups [rdi + 16], xmm0
    movups [rdi + rdx - 32], xmm0
    cmp rdx, 64
    jbe 9f
    lea r9, [rdi + rdx - 64]
    movups [r9], xmm0
    movups [r9 + 16], xmm0
    add rdi, 32
    and rdi, -16
    cmp rdi, r9
    jae 9f
    .p2align 4
1:  movaps [rdi], xmm0
    movaps [rdi + 16], xmm0
    movaps [rdi + 32], xmm0
    movaps [rdi + 48], xmm0
    add rdi, 64
    cmp rdi, r9
    jb 1b
    ret
2:  cmp edx, 8
    jb 3f
    mov [rdi], rcx
    mov [rdi + rdx - 8], rcx
    ret
3:  cmp edx, 4
    jb 4f
    mov [rdi], ecx
    mov [rdi + rdx - 4], ecx
    ret
4:  test edx, edx
    jz 9f
    mov [rdi], cl
    cmp edx, 1
    je 9f
    mov [rdi + rdx - 2], cx
9:  ret
done memset

# rdi, rsi: compared, rdx: bytes
own memcmp
    xor ecx, ecx
    cmp rdx, 16
    jb 4f
    sub rdx, 16
1:  movups xmm0, [rdi + rcx]
    movups xmm1, [rsi + rcx]
    pcmpeqb xmm0, xmm1
    pmovmskb eax, xmm0
    sub eax, 0xFFFF
    jnz 3f
    cmp rcx, rdx
    je 2f
    add rcx, 16
    cmp rcx, rdx
    cmova rcx, rdx
    jmp 1b
2:  ret
    # The lowest bit that is set is that of the first byte that differs.
3:  add eax, 0xFFFF
    not eax
    bsf eax, eax
    add rcx, rax
    movzx eax, byte ptr [rdi + rcx]
    movzx edx, byte ptr [rsi + rcx]
    sub eax, edx
    ret
4:  cmp edx, 8
    jb 6f
    mov rax, [rdi]
    mov rcx, [rsi]
    cmp rax, rcx
    jne 5f
    mov rax, [rdi + rdx - 8]
    mov rcx, [rsi + rdx - 8]
    cmp rax, rcx
    jne 5f
    xor eax, eax
    ret
5:  bswap rax
    bswap rcx
    cmp rax, rcx
    sbb eax, eax
    or eax, 1
    ret
6:  cmp rcx, rdx
    je 7f
    movzx eax, byte ptr [rdi + rcx]
    movzx r8d, byte ptr [rsi + rcx]
    inc rcx
    sub eax, r8d
    jz 6b
    ret
7:  xor eax, eax
    ret
done memcmp

# rdi: text
own strlen
    mov rax, rdi
1:  cmp byte ptr [rax], 0
    je 2f
    inc rax
    jmp 1b
2:  sub rax, rdi
    ret
done strlen

.popsection
