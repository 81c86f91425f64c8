package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/toolhaven/toolhaven/test/postgres"
)

// database runs the PostgreSQL server of the tests in a program that is not a test: it
// implements the [testing.TB] that their package requires. A failure panics, and guarded
// converts the panic into an error.
type database struct {
	testing.TB // nil: the harness uses only what is below
	server     *postgres.Server
	ends       []func()
	errors     []error
}

type harnessFailed struct{ error }

func (d *database) Helper()           {}
func (d *database) Cleanup(f func())  { d.ends = append(d.ends, f) }
func (d *database) Fatal(args ...any) { panic(harnessFailed{errors.New(fmt.Sprint(args...))}) }
func (d *database) Fatalf(format string, args ...any) {
	panic(harnessFailed{fmt.Errorf(format, args...)})
}
func (d *database) Errorf(format string, args ...any) {
	d.errors = append(d.errors, fmt.Errorf(format, args...))
}

func (d *database) guarded(f func()) (err error) {
	defer func() {
		if failed, ok := recover().(harnessFailed); ok {
			err = failed
		}
	}()
	f()
	return nil
}

// startPostgres starts a server of our own; close ends it and removes its files.
func startPostgres() (*database, error) {
	d := &database{}
	if err := d.guarded(func() { d.server = postgres.Start(d) }); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// create makes a database, and returns its URL.
func (d *database) create() (url string, err error) {
	err = d.guarded(func() { url = d.server.Database(d) })
	return url, err
}

func (d *database) close() error {
	for _, end := range slices.Backward(d.ends) {
		if err := d.guarded(end); err != nil {
			d.errors = append(d.errors, err)
		}
	}
	d.ends = nil
	return errors.Join(d.errors...)
}
