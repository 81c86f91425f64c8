package seal

import (
	"errors"
	"testing"
)

func TestOpen(t *testing.T) {
	ours, err := New(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := New(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	text := ours.Close("session\x00alice", []byte("plain"))
	if got, err := ours.Open("session\x00alice", text); err != nil || string(got) != "plain" {
		t.Fatalf("got %q, %v", got, err)
	}
	if text == ours.Close("session\x00alice", []byte("plain")) {
		t.Error("the same text twice: nonces repeat")
	}
	flipped := []byte(text)
	flipped[len(flipped)/2] ^= 1
	for name, row := range map[string]struct {
		by            *Sealer
		purpose, text string
	}{
		"another purpose":  {ours, "session\x00bob", text},
		"another key":      {theirs, "session\x00alice", text},
		"one bit altered":  {ours, "session\x00alice", string(flipped)},
		"cut off":          {ours, "session\x00alice", text[:len(text)-4]},
		"something added":  {ours, "session\x00alice", text + "AAAA"},
		"nothing":          {ours, "session\x00alice", ""},
		"not base64url":    {ours, "session\x00alice", "=" + text},
		"with a line feed": {ours, "session\x00alice", text[:8] + "\n" + text[8:]},
	} {
		if got, err := row.by.Open(row.purpose, row.text); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, size := range []int{0, 16, 31, 33} {
		if _, err := New(make([]byte, size)); err == nil {
			t.Errorf("a key of %d bytes is taken", size)
		}
	}
}
