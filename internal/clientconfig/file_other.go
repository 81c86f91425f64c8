//go:build !unix

package clientconfig

import "io/fs"

func checkOwner(fs.FileInfo) error { return nil }

func keepOwner(string, fs.FileInfo) error { return nil }
