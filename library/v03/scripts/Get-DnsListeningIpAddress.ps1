function Get-DnsListeningIpAddress {
    # The first IPv4 address at which this machine's DNS server answers.
    $server = Get-CimInstance -Namespace root\MicrosoftDNS -ClassName MicrosoftDNS_Server
    $addresses = if ($server.ListenAddresses) { $server.ListenAddresses } else { $server.ServerAddresses }
    $address = $addresses | Where-Object { $_ -match '^\d+(\.\d+){3}$' -and $_ -ne '127.0.0.1' } | Select-Object -First 1
    if (-not $address) { throw 'The DNS server of this machine answers at no IPv4 address' }
    $address
}
