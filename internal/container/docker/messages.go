package docker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/api/types/jsonstream"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// maxMessage bounds one message of an engine's progress stream, in bytes.
const maxMessage = 4 << 20

// errorMessage is a failure that came as a message, after a good status.
type errorMessage struct{ text string }

func (e *errorMessage) Error() string { return e.text }

// messages reads an engine's stream of progress messages to its end. A message
// with an error ends it with that error.
func messages(r io.Reader, each func(jsonstream.Message)) error {
	bounded := &io.LimitedReader{R: r}
	dec := json.NewDecoder(bounded)
	for {
		var m struct {
			jsonstream.Message
			// Older than errorDetail, and all that Podman sends of a failure.
			Text string `json:"error"`
		}
		bounded.N = maxMessage
		err := dec.Decode(&m)
		switch {
		case err != nil && bounded.N <= 0:
			return fmt.Errorf("the engine's answer cannot be read: one message is longer than %d bytes", maxMessage)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the engine's answer cannot be read: %w", err)
		case m.Error != nil && m.Error.Message != "":
			return &errorMessage{m.Error.Message}
		case m.Error != nil || m.Text != "":
			return &errorMessage{cmp.Or(m.Text, "the engine reports a failure without a reason")}
		}
		each(m.Message)
	}
}

// lastLines keeps the end of a builder's output, for the report of a failure.
type lastLines []string

const keptLines = 20

// take cuts output into lines, keeps them, and hands each to log.
func (l *lastLines) take(output string, log func(string)) {
	for line := range strings.Lines(output) {
		line = plaintext.Lines(strings.TrimRight(line, "\r\n"))
		if strings.TrimSpace(line) == "" {
			continue
		}
		if log != nil {
			log(line)
		}
		*l = append((*l)[max(0, len(*l)-keptLines+1):], line)
	}
}

func (l lastLines) String() string {
	if len(l) == 0 {
		return ""
	}
	return "; the builder's last output:\n  " + strings.Join(l, "\n  ")
}
