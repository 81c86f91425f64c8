package docker

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestASpoolKeepsWhatIsReadInTime(t *testing.T) {
	s := newSpool()
	want := strings.Repeat("0123456789", maxSpool/10)
	for chunk := range strings.SplitSeq(want, "9") {
		s.Write([]byte(chunk + "9"))
	}
	s.end(nil)
	got, err := io.ReadAll(s)
	if err != nil || string(got) != want+"9" {
		t.Errorf("%d bytes of %d, %v", len(got), len(want)+1, err)
	}
}

func TestASpoolWithoutAReaderBlocksNothingAndReportsItsLoss(t *testing.T) {
	s := newSpool()
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for range 1000 { // would wait for ever if it waited
		if n, err := s.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	s.Write([]byte("the end"))
	s.end(nil)
	got, err := io.ReadAll(s)
	if err != nil || len(got) > 2*maxSpool+200 || !bytes.HasSuffix(got, []byte("the end")) || !bytes.Contains(got[:200], []byte("bytes of standard error were not read in time and are lost")) {
		t.Errorf("%d bytes, %v, beginning %q", len(got), err, got[:min(len(got), 200)])
	}
}

func TestASpoolsEnds(t *testing.T) {
	s := newSpool()
	broken := errors.New("broken")
	s.Write([]byte("x"))
	s.end(broken)
	if got, err := io.ReadAll(s); string(got) != "x" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
	s = newSpool()
	read := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	s.Close() // whether it waits already or not
	if err := <-read; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader of what is closed: %v", err)
	}
	if n, err := s.Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
	// The last words of a server whose line broke before they were read.
	s = newSpool()
	s.Write([]byte("why"))
	s.Close()
	s.Write([]byte("too late"))
	if got, err := io.ReadAll(s); string(got) != "why" || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after closing: %q, %v", got, err)
	}
}
