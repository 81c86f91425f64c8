package correlate

import (
	"testing"

	"github.com/toolhaven/toolhaven/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
