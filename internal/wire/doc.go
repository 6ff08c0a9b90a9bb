// Package wire is the layout that RedisEvents keeps in Redis, wire version 1: key names, the fields of a
// stream entry, the packed header block, stream ids, and the values of the positions hash.
//
// It converts between bytes and values and knows neither HTTP nor a Redis client. The rules mirror the .NET package
// RedisEvents, so that services in .NET and Go can share topics and take over each other's positions.
package wire

// Version is the layout version that this package reads and writes, recorded in field MetaVersion of the topic's meta hash.
const Version = 1
