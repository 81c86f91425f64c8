// Package server is the registry server at work: it opens what the configuration
// names, serves the API and the page on one port and its own health on another,
// keeps the sources synchronized, and stops in the right order.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhaven/toolhaven/internal/auditlog"
	"github.com/toolhaven/toolhaven/internal/registry/api"
	"github.com/toolhaven/toolhaven/internal/registry/catalog"
	"github.com/toolhaven/toolhaven/internal/registry/config"
	"github.com/toolhaven/toolhaven/internal/registry/source"
)

// Options are what the command line adds to the configuration.
type Options struct {
	Address, InternalAddress string
	Log                      *slog.Logger
	// AuditOut receives the record of writes unless the configuration names a file.
	AuditOut io.Writer
	// Reload, if any, reopens the audit file and fetches keys and sources anew.
	Reload <-chan os.Signal
	// Ready, if any, is called with the addresses once both ports are served.
	Ready func(main, internal net.Addr)
}

// Times of the two HTTP servers.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 120 * time.Second
	maxHeader     = 32 << 10 // bytes
	stopTimeout   = 30 * time.Second
)

// Run serves until ctx ends, and then stops: requests under way are answered
// first, then synchronization ends, and the database is closed last.
func Run(ctx context.Context, cfg *config.Config, opt Options) error {
	if err := cfg.CheckFiles(); err != nil {
		return err
	}
	// Ports first: a second server on the same port must not touch a database.
	mainPort, internalPort, err := listen(ctx, opt)
	if err != nil {
		return err
	}
	defer mainPort.Close()
	defer internalPort.Close()

	m := newMetrics()
	record, err := OpenAudit(cfg.Audit, opt.AuditOut, opt.Log, m.auditFailures.Inc)
	if err != nil {
		return err
	}
	defer record.Close()
	st, err := OpenStore(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer func() {
		if err := st.Close(); err != nil {
			opt.Log.Error("the database does not close", "error", err)
		}
	}()

	cat := catalog.New(st, cfg.Definitions())
	access, err := openAccess(cfg, m, opt.Log)
	if err != nil {
		return err
	}
	refreshKeys := func() {}
	if access != nil {
		defer access.Validator.Close()
		refreshKeys = access.Validator.FetchKeys
	}
	page, err := openWeb(cfg, access, cat, st, opt.Log)
	if err != nil {
		return err
	}
	syncer, err := source.New(st, cfg.Sources, source.Options{Log: opt.Log, Observe: m.observeSync})
	if err != nil {
		return err
	}
	m.watchSources(st, cfg.Sources)

	handler := api.New(api.Options{Catalog: cat, Access: access, Log: opt.Log, Audit: record, Web: page})
	state := &readiness{store: st, catalog: cat}
	mainServer := newServer(observe(newHosts(opt.Address, cfg).guard(handler), m, opt.Log), opt.Log)
	internalServer := newServer(internalHandler(state, m), opt.Log)

	// Synchronization outlives the requests: it ends when they have.
	syncing, endSync := context.WithCancel(context.WithoutCancel(ctx))
	defer endSync()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(mainServer, mainPort) })
	group.Go(func() error { return serve(internalServer, internalPort) })
	group.Go(func() error { return syncer.Run(syncing) })
	warn(cfg, mainPort.Addr(), opt.Log)
	opt.Log.Info("the registry serves", "address", mainPort.Addr().String(), "internalAddress", internalPort.Addr().String(), "mode", cfg.Auth.Mode)
	if opt.Ready != nil {
		opt.Ready(mainPort.Addr(), internalPort.Addr())
	}
	go state.warm(syncing, opt.Log)

	for stopping := false; !stopping; {
		select {
		case <-opt.Reload:
			reload(record, refreshKeys, syncer, opt.Log)
		case <-running.Done(): // a signal to stop, or a part failed
			stopping = true
		}
	}
	opt.Log.Info("stopping: requests under way are answered first")
	state.stopping.Store(true)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopErr := mainServer.Shutdown(bounded)
	if stopErr != nil {
		stopErr = fmt.Errorf("requests still run after %s: %w", stopTimeout, errors.Join(stopErr, mainServer.Close()))
	}
	endSync()
	_ = internalServer.Close() // it holds nothing
	return errors.Join(stopErr, group.Wait())
}

func listen(ctx context.Context, opt Options) (mainPort, internalPort net.Listener, err error) {
	var lc net.ListenConfig
	if mainPort, err = lc.Listen(ctx, "tcp", opt.Address); err != nil {
		return nil, nil, fmt.Errorf("--address %s: %w", opt.Address, err)
	}
	if internalPort, err = lc.Listen(ctx, "tcp", opt.InternalAddress); err != nil {
		mainPort.Close()
		return nil, nil, fmt.Errorf("--internal-address %s: %w", opt.InternalAddress, err)
	}
	return mainPort, internalPort, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		// "OPTIONS *" is refused by the handler, and logged, as any other.
		DisableGeneralOptionsHandler: true,
		IdleTimeout:                  idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// warn logs what is allowed and dangerous.
func warn(cfg *config.Config, address net.Addr, log *slog.Logger) {
	for _, warning := range cfg.Warnings() {
		log.Warn(warning)
	}
	if cfg.Auth.Mode != config.ModeAnonymous {
		return
	}
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	log.Warn("auth.mode is anonymous: every client that reaches this port may read and publish", "address", address.String())
}

// OpenAudit opens the record of writes: the configured file, or else out. failed is
// called for each record that cannot be stored.
func OpenAudit(c config.Audit, out io.Writer, log *slog.Logger, failed func()) (*auditlog.Log, error) {
	return auditlog.Open(auditlog.Options{File: c.File, Out: out, Accept: c.OnFailure == config.AuditAccept, Log: log, Failed: failed})
}

// reload reopens the audit file and fetches keys and sources anew.
func reload(record *auditlog.Log, refreshKeys func(), syncer *source.Syncer, log *slog.Logger) {
	if err := record.Reopen(); err != nil {
		log.Error("the audit file cannot be reopened; the one that is open stays in use", "error", err)
	}
	refreshKeys()
	syncer.Refresh()
	log.Info("SIGHUP: the audit file was reopened; keys and sources are fetched")
}
