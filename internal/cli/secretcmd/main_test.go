package secretcmd_test

import (
	"testing"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
