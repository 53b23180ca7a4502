function Exit-Domain {
    # Takes this machine out of a domain; it restarts afterwards.
    param([string] $Username, [string] $Password, [Parameter(Mandatory)] [string] $DomainName)
    $computer = Get-CimInstance Win32_ComputerSystem
    if (-not $computer.PartOfDomain -or $computer.Domain -ne $DomainName) { return }
    $arguments = @{ WorkgroupName = 'WORKGROUP'; Force = $true }
    if ($Username -and $Password) {
        $arguments.UnjoinDomainCredential = ConvertTo-Credential "$DomainName\$Username" $Password
    }
    Remove-Computer @arguments | Out-Null
    Write-Log "This machine has left $DomainName"
}
