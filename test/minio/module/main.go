//go:build never

// Package main keeps the requirements of go.mod.
package main

import _ "github.com/minio/minio"
