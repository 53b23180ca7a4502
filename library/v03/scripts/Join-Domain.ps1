function Set-NetworkAdapterConfiguration {
    # Sets the DNS server of an adapter; an empty one leaves the adapter as it is.
    param([switch] $FirstAvailable, [string] $Name, [string] $DNSServer)
    if (-not $DNSServer) { return }
    $adapters = Get-NetAdapter | Where-Object { $_.Status -eq 'Up' -and ($FirstAvailable -or $_.Name -eq $Name) }
    $adapter = $adapters | Select-Object -First 1
    if (-not $adapter) { throw 'No network adapter is up' }
    Set-DnsClientServerAddress -InterfaceIndex $adapter.ifIndex -ServerAddresses $DNSServer
}

function Join-Domain {
    # Makes this machine a member of a domain; it restarts afterwards.
    param(
        [Parameter(Mandatory)] [string] $Username,
        [Parameter(Mandatory)] [string] $Password,
        [Parameter(Mandatory)] [string] $DomainName,
        [string] $OUPath
    )
    $computer = Get-CimInstance Win32_ComputerSystem
    if ($computer.PartOfDomain -and $computer.Domain -eq $DomainName) {
        Write-Log "This machine is a member of $DomainName already"
        return
    }
    $arguments = @{ DomainName = $DomainName; Credential = ConvertTo-Credential "$DomainName\$Username" $Password; Force = $true }
    if ($OUPath) { $arguments.OUPath = $OUPath }
    Add-Computer @arguments | Out-Null
    Write-Log "This machine has joined $DomainName"
}
