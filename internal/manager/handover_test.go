package manager

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadHandover(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, line := range []string{"", `{"a":"b"}`, long} {
		got, rest, err := ReadHandover(iotest.HalfReader(strings.NewReader(line + "\n" + Detach)))
		if err != nil || string(got) != line {
			t.Errorf("%d bytes, %v", len(got), err)
			continue
		}
		if after, err := io.ReadAll(rest); string(after) != Detach || err != nil {
			t.Errorf("after it: %q, %v", after, err)
		}
	}
	for _, input := range []io.Reader{strings.NewReader(""), strings.NewReader("half"), bytes.NewReader(bytes.Repeat([]byte("x"), maxHandover+1<<20))} {
		if _, _, err := ReadHandover(input); err == nil {
			t.Error("no error")
		}
	}
}
