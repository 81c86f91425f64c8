// Package archtest holds the import rules of docs/architecture.md as a test: it
// asks the go command what each package imports and compares that with the
// rules. It has no code of its own.
package archtest
