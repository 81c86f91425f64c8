package gateway

// maxIdleGoroutines is how many wait for more to do.
const maxIdleGoroutines = 64

// goroutines run functions, each in one of its own, and some of them are kept for the
// next: the stack of a new one grows twice on its way down to a backend, which is
// some four percent of a small call.
type goroutines struct {
	work chan func()
	idle chan struct{} // holds a token for each that waits
}

func newGoroutines() goroutines {
	return goroutines{work: make(chan func()), idle: make(chan struct{}, maxIdleGoroutines)}
}

// run does not wait for f. Who is idle ends when ended is closed.
func (g goroutines) run(f func(), ended <-chan struct{}) {
	select {
	case g.work <- f:
	default:
		go g.live(f, ended)
	}
}

func (g goroutines) live(f func(), ended <-chan struct{}) {
	for {
		f()
		select {
		case g.idle <- struct{}{}:
		default:
			return // enough of us wait
		}
		select {
		case f = <-g.work:
			<-g.idle
		case <-ended:
			return
		}
	}
}
