package gateway

// maxIdleWorkers is how many goroutines wait for more to do.
const maxIdleWorkers = 64

// workers runs functions each in a goroutine of its own, and keeps some of them for
// the next: the stack of a new one grows twice on its way down to a backend, which is
// some four percent of a small call.
type workers struct {
	work chan func()
	idle chan struct{} // holds a token for each that waits
}

func newWorkers() workers {
	return workers{work: make(chan func()), idle: make(chan struct{}, maxIdleWorkers)}
}

// run does not wait for f. Workers that are idle end when ended is closed.
func (w workers) run(f func(), ended <-chan struct{}) {
	select {
	case w.work <- f:
	default:
		go w.worker(f, ended)
	}
}

func (w workers) worker(f func(), ended <-chan struct{}) {
	for {
		f()
		select {
		case w.idle <- struct{}{}:
		default:
			return // enough of us wait
		}
		select {
		case f = <-w.work:
			<-w.idle
		case <-ended:
			return
		}
	}
}
