function Enable-SQLExternalAccess {
    # Lets clients reach the engine and the browser service.
    foreach ($rule in @(@{ Name = 'SQL Server'; Protocol = 'TCP'; Port = 1433 }, @{ Name = 'SQL Browser'; Protocol = 'UDP'; Port = 1434 })) {
        if (-not (Get-NetFirewallRule -DisplayName $rule.Name -ErrorAction SilentlyContinue)) {
            New-NetFirewallRule -DisplayName $rule.Name -Direction Inbound -Protocol $rule.Protocol -LocalPort $rule.Port -Action Allow | Out-Null
        }
    }
}
