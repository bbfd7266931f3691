; A program that counts: its first account holds eight bytes that are not looked at (Anchor's mark of the type), then
; a number that each call raises by one. It logs what it does and returns the number as its return data.
;
; Bytes of the input, as the loader lays it out: 0 the number of accounts; of the first account: 8 marks, 16 address,
; 48 owner, 80 lamports, 88 length of the data, 96 the data.

.globl entrypoint

entrypoint:
  ldxdw r2, [r1+0]
  jeq r2, 0, no_account
  ldxdw r3, [r1+88]
  jlt r3, 16, too_small
  ldxdw r4, [r1+104]
  add64 r4, 1
  stxdw [r1+104], r4
  mov64 r6, r1
  lddw r1, message
  mov64 r2, 8
  call sol_log_
  mov64 r1, r6
  add64 r1, 104
  mov64 r2, 8
  call sol_set_return_data
  mov64 r0, 0
  exit

no_account:
  mov64 r0, 1
  exit

too_small:
  mov64 r0, 2
  exit

.rodata
  message: .ascii "counted!"
