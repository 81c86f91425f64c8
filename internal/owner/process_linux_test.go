package owner

import (
	"bytes"
	"testing"
)

// Zeros whose memory was given back are still zeros, and can be written to.
func TestUntouched(t *testing.T) {
	zeros := make([]byte, heapFloor)
	untouched(zeros)
	if !bytes.Equal(zeros, make([]byte, heapFloor)) {
		t.Error("it is not zero")
	}
	zeros[heapFloor/2] = 1
	if zeros[heapFloor/2] != 1 {
		t.Error("it cannot be written to")
	}
}
