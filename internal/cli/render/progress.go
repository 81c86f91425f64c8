package render

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/toolhaven/toolhaven/internal/manager"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Progress writes the steps of a command to standard error: one changing line on a
// terminal, else one line for each step.
type Progress struct {
	w   io.Writer
	tty bool

	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	last string
}

// spinnerWidth is the part of a line that the text cannot use: the spinner, and the last
// column, after which some terminals begin another line.
const spinnerWidth = 5

// NewProgress returns a Progress that writes to w. env is os.Getenv.
func NewProgress(w io.Writer, env func(string) string) *Progress {
	return &Progress{w: w, tty: IsTerminal(w) && !isDumb(env)}
}

// Event writes one step.
func (p *Progress) Event(e manager.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Stage == manager.NoteStage {
		p.finish()
		fmt.Fprintln(p.w, "Note:", plaintext.Lines(e.Message))
		return
	}
	if !p.tty {
		// The progress of a download is left out of a log.
		if e.Total == 0 && e.Current == 0 && e.Message != p.last {
			fmt.Fprintln(p.w, plaintext.Lines(e.Message))
			p.last = e.Message
		}
		return
	}
	text, size := plaintext.Line(e.Message), ""
	if e.Total > 0 {
		size = fmt.Sprintf(" %.1f of %.1f MB", float64(min(e.Current, e.Total))/1e6, float64(e.Total)/1e6)
	}
	// A line that wraps is not cleared, and each turn of the spinner would add another.
	if n := columns(p.w); n > 0 {
		text = cut(text, max(n-spinnerWidth-width(size), 1))
	}
	text += size
	if p.bar != nil {
		p.bar.Describe(text) // shown by the spinner's next turn at the latest
		return
	}
	p.bar = progressbar.NewOptions64(-1,
		progressbar.OptionSetDescription(text),
		progressbar.OptionSetWriter(p.w), progressbar.OptionClearOnFinish(),
		// Clears the whole line, also what the terminal echoed, such as ^C.
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSpinnerType(14), progressbar.OptionThrottle(80*time.Millisecond),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true))
}

// Done clears the line.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

// finish clears the line and stops the spinner's goroutine.
func (p *Progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
