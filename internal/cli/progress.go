package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// progress shows the way to a running workload on standard error: one changing
// line on a terminal, otherwise one line for each step.
type progress struct {
	w   io.Writer
	tty bool

	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	last string
}

func newProgress(w io.Writer) *progress { return &progress{w: w, tty: isTerminal(w)} }

// event shows one step.
func (p *progress) event(e workload.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tty {
		// Layers and bytes are noise in a log; steps are not.
		if e.Total == 0 && e.Current == 0 && e.Message != p.last {
			fmt.Fprintln(p.w, printable(e.Message))
			p.last = e.Message
		}
		return
	}
	total := int64(-1) // a spinner
	if e.Total > 0 {
		total = e.Total
	}
	if p.bar == nil || (p.bar.GetMax64() < 0) != (total < 0) {
		p.finish()
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionClearOnFinish(),
			progressbar.OptionSpinnerType(14), progressbar.OptionThrottle(80*time.Millisecond),
			progressbar.OptionShowBytes(total > 0), progressbar.OptionSetWidth(24),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetRenderBlankState(true))
	}
	p.bar.Describe(printable(e.Message))
	if total > 0 {
		p.bar.ChangeMax64(total)
		_ = p.bar.Set64(min(e.Current, total)) // a bar that cannot be drawn is no fault
	} else {
		_ = p.bar.Add(1)
	}
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
